import type { MiddlewareHandler } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import type { Observe } from '../../../telemetry/observe.ts'

/** Tells the seam of telemetry about requests of one route; `name` is the route's, never what the caller wrote. */
export function observeRequest(observe: Observe, name: string): MiddlewareHandler {
  return async function observed(c, next) {
    const end = observe({ kind: 'request', name })
    await next()
    if (c.error === undefined) end({ result: 'ok' })
    else end({ result: 'error', code: c.error instanceof PublicError ? c.error.code : 'internal' })
  }
}
