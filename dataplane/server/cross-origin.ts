import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'

const DAY_S = 86_400

/**
 * Lets pages of `origins` (`*` = all) read the answers, without cookies: callers have bearer tokens. `exposed`:
 * response headers for scripts.
 */
export function allowOrigins(
  origins: readonly string[],
  methods: readonly string[] = ['GET', 'HEAD'],
  exposed: readonly string[] = [],
): MiddlewareHandler {
  return cors({
    origin: origins.includes('*') ? '*' : [...origins],
    allowMethods: [...methods],
    exposeHeaders: ['x-request-id', 'www-authenticate', 'retry-after', ...exposed],
    maxAge: DAY_S,
  })
}
