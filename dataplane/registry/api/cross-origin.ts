import type { MiddlewareHandler } from 'hono'

const DAY_S = 86_400

/**
 * Lets pages of the configured origins (`*` = all) read the catalog. Methods and headers are those that GitHub Copilot
 * asks of a registry.
 */
export function crossOrigin(origins: () => readonly string[]): MiddlewareHandler {
  return async function crossOriginReads(c, next) {
    const allowed = origins()
    const everybody = allowed.includes('*')
    const origin = c.req.header('origin')
    if (everybody) c.header('access-control-allow-origin', '*')
    else {
      c.header('vary', 'Origin')
      if (origin !== undefined && allowed.includes(origin)) c.header('access-control-allow-origin', origin)
    }

    if (c.req.method === 'OPTIONS') {
      c.header('access-control-allow-methods', 'GET, OPTIONS')
      c.header('access-control-allow-headers', 'Authorization, Content-Type')
      c.header('access-control-max-age', String(DAY_S))
      return c.body(null, 204)
    }
    c.header('access-control-expose-headers', 'ETag, X-Request-Id')
    return next()
  }
}
