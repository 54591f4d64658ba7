/** A path of plain segments, none of which begins with a dot, so that no URL parser makes another one of it. */
export const ENDPOINT_PREFIX = '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$'
