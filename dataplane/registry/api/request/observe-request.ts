import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { MiddlewareHandler } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import type { Observe, Operation, Origin, Outcome } from '../../../telemetry/observe.ts'
import type { OperationDescription, RegistryEnv } from './operation.ts'

type Asked = Pick<IncomingMessage, 'method' | 'headers' | 'socket'>

/** Reports requests of one route to telemetry. The labels are our own names, never text from the caller. */
export function observeRequest(
  observe: Observe,
  { id: name, path }: Pick<OperationDescription, 'id' | 'path'>,
): MiddlewareHandler<RegistryEnv> {
  const operation: Operation = { kind: 'request', name }
  return async function observed(c, next) {
    const { incoming } = c.env as unknown as { readonly incoming: IncomingMessage }
    const observation = observe(operation, requestOrigin(incoming, path))
    c.set('traceparent', observation.trace?.traceparent)
    await next()
    observation.end(c.error === undefined ? { result: 'ok', status: c.res.status } : buildFailure(c.error))
  }
}

/** Returns the outcome of a request that was refused or that failed. */
export const buildFailure = (error: unknown): Outcome =>
  error instanceof PublicError
    ? { result: 'error', code: error.code, status: error.status }
    : { result: 'error', code: 'internal', status: 500 }

/**
 * Returns the origin of a request for telemetry. `path` is the template of its route, since a path may name secret
 * things.
 */
export const requestOrigin = ({ method, headers, socket }: Asked, path: string): Origin => ({
  incoming: () => ({ traceparent: headers['traceparent'], tracestate: headers['tracestate'] }),
  details: () => ({
    'http.request.method': method,
    'url.path': path,
    'url.scheme': (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http',
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'user_agent.original': headers['user-agent'],
  }),
})
