import type { MiddlewareHandler } from 'hono'

const DAY_S = 86_400

/** The response headers that pages may read. */
export const EXPOSED_HEADERS = 'ETag, X-Request-Id, WWW-Authenticate, Retry-After'

/** Returns `Access-Control-Allow-Origin`; undefined if the page may not read. */
export function allowedOrigin(allowed: readonly string[], origin: string | undefined): string | undefined {
  if (allowed.includes('*')) return '*'
  return origin !== undefined && allowed.includes(origin) ? origin : undefined
}

/**
 * Lets pages of the configured origins (`*` = all) read the catalog, with the methods and headers that GitHub Copilot
 * requires.
 */
export function crossOrigin(origins: () => readonly string[]): MiddlewareHandler {
  return async function crossOriginReads(c, next) {
    const allowed = allowedOrigin(origins(), c.req.header('origin'))
    if (allowed !== undefined) c.header('access-control-allow-origin', allowed)
    if (allowed !== '*') c.header('vary', 'Origin')

    if (c.req.method === 'OPTIONS') {
      c.header('access-control-allow-methods', 'GET, OPTIONS')
      c.header('access-control-allow-headers', 'Authorization, Content-Type')
      c.header('access-control-max-age', String(DAY_S))
      return c.body(null, 204)
    }
    c.header('access-control-expose-headers', EXPOSED_HEADERS)
    return next()
  }
}
