/** A scope (RFC 6749 section 3.3), as a pattern. */
export const SCOPE = '^[!#-\\[\\]-~]+$'
