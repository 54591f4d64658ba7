import type { MiddlewareHandler } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import type { Observe } from '../../../telemetry/observe.ts'
import type { RegistryEnv } from './operation.ts'
import { requestOrigin } from './origin.ts'

/** Tells the seam of telemetry about requests of one route; `name` is the route's, never what the caller wrote. */
export function observeRequest(observe: Observe, name: string): MiddlewareHandler<RegistryEnv> {
  return async function observed(c, next) {
    const observation = observe(
      { kind: 'request', name },
      requestOrigin({ method: c.req.method, headers: c.req.header() }),
    )
    c.set('traceparent', observation.trace?.traceparent)
    await next()
    if (c.error === undefined) observation.end({ result: 'ok' })
    else observation.end({ result: 'error', code: c.error instanceof PublicError ? c.error.code : 'internal' })
  }
}
