/** Steps of a JSON pointer (RFC 6901 section 3). */
export const escapeStep = (step: string): string => step.replaceAll('~', '~0').replaceAll('/', '~1')

export const unescapeStep = (step: string): string => step.replaceAll('~1', '/').replaceAll('~0', '~')
