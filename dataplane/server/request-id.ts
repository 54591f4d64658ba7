import type { MiddlewareHandler } from 'hono'
import type { Logger } from 'pino'
import { traceIdOf } from './log.ts'
import { uniqueId } from './unique-id.ts'

export interface RequestVariables {
  readonly requestId: string
  /** The trace context of the request; undefined if nothing is traced. */
  readonly traceparent: string | undefined
  /** Log whose lines carry the ids of the request and of its trace; made when it is first used. */
  log(): Logger
}

export const REQUEST_ID = 'x-request-id'

const FOREIGN_ID = /^[\w.:-]{1,64}$/

/** Returns the id from a proxy in front if it is short and plain; else a new one. */
export function requestIdOf(given: unknown): string {
  return typeof given === 'string' && FOREIGN_ID.test(given) ? given : uniqueId()
}

/** Gives each request an id, in the log and in the answer's `X-Request-Id`. */
export function requestIds(log: Logger): MiddlewareHandler<{ Variables: RequestVariables }> {
  return async function requestId(c, next) {
    const id = requestIdOf(c.req.header(REQUEST_ID))
    let child: Logger | undefined
    c.set('requestId', id)
    c.set('log', () => (child ??= log.child({ requestId: id, ...traceIdOf(c.var.traceparent) })))
    // Set on a finished answer, the header would make it be built twice (20 µs).
    c.header(REQUEST_ID, id)
    await next()
    if (!c.res.headers.has(REQUEST_ID)) c.header(REQUEST_ID, id)
  }
}
