/** A path of plain segments. No segment begins with a dot, so that no URL parser rewrites the path. */
export const ENDPOINT_PREFIX = '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$'
