import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { MiddlewareHandler } from 'hono'
import { type AuditEvent, type Auditing, type AuditLog, classifyStatus } from '../../../audit/event.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Observe, Operation, Origin, Outcome } from '../../../telemetry/observe.ts'
import type { OperationDescription, RegistryEnv } from './operation.ts'

/** Creates the middleware that reports requests of an operation to telemetry, under our own names only. */
export function observeRequest(
  observe: Observe,
  { id: name, path }: Pick<OperationDescription, 'id' | 'path'>,
): MiddlewareHandler<RegistryEnv> {
  const operation: Operation = { kind: 'request', name }
  return async function observed(c, next) {
    const { incoming } = c.env as unknown as { readonly incoming: IncomingMessage }
    const observation = observe(operation, buildOrigin(incoming, path))
    c.set('traceparent', observation.trace?.traceparent)
    await next()
    observation.end(c.error === undefined ? { result: 'ok', status: c.res.status } : buildFailure(c.error))
  }
}

/** Builds the outcome of a request that was refused or failed. */
export const buildFailure = (error: unknown): Outcome => ({ result: 'error', ...describeEnd(error) })

/** Builds the origin of a request for telemetry. `path` is the template of its route: a real path may name secrets. */
export const buildOrigin = (
  { method, headers, socket }: Pick<IncomingMessage, 'method' | 'headers' | 'socket'>,
  path: string,
): Origin => ({
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

/** The fields that audit events of the catalog and of the admin API have in common. */
type AuditedRequest = Pick<AuditEvent, 'request' | 'requestId' | 'traceparent' | 'caller' | 'target' | 'data'>

/**
 * Records a finished request in the audit log. `error` is the reason if it was refused; `startedAt` comes from
 * `performance.now()`.
 */
export function auditAnswer(
  log: AuditLog,
  type: 'registry_read' | 'registry_write',
  request: AuditedRequest,
  { error, startedAt }: { readonly error: unknown; readonly startedAt: number },
): void {
  const { code, status } = describeEnd(error)
  log.write({
    ...request,
    type,
    outcome: classifyStatus(status),
    error: code,
    durationMs: performance.now() - startedAt,
  })
}

/** Records a caller that was refused before its request was looked at. */
export function auditRefusal(
  { log }: Auditing,
  error: unknown,
  incoming: IncomingMessage | undefined,
  requestId: string,
): void {
  const { code, status } = describeEnd(error)
  log?.write({
    type: 'authentication_failed',
    outcome: classifyStatus(status),
    error: code,
    request: incoming,
    requestId,
    traceparent: incoming?.headers['traceparent'],
    target: { http_method: incoming?.method },
  })
}

function describeEnd(error: unknown): { readonly code?: string; readonly status: number } {
  if (error === undefined) return { status: 200 }
  return error instanceof PublicError ? { code: error.code, status: error.status } : { code: 'internal', status: 500 }
}

/** The POST operations that change nothing. */
const READING_POSTS: ReadonlySet<string> = new Set(['explain'])

/** Creates the middleware that records requests of an operation in the audit log. */
export function auditOperation(
  audit: Auditing,
  { id, method }: Pick<OperationDescription, 'id' | 'method'>,
): MiddlewareHandler<RegistryEnv> {
  const type = method === 'get' || READING_POSTS.has(id) ? 'registry_read' : 'registry_write'
  return async function audited(c, next) {
    const { log } = audit
    if (log === undefined || !log.wants(type)) return next()
    const startedAt = performance.now()
    await next()
    const { incoming } = (c.env ?? {}) as { incoming?: IncomingMessage }
    const { requestId, traceparent, actor, sent } = c.var
    const { namespace, short, ...parameters } = c.req.param() as Record<string, string>
    const response = log.responseBytes > 0 ? await c.res.clone().text() : undefined
    auditAnswer(
      log,
      type,
      {
        request: incoming,
        requestId,
        traceparent: traceparent ?? incoming?.headers['traceparent'],
        caller: actor.caller,
        target: {
          operation: id,
          http_method: c.req.method,
          ...parameters,
          entry: short === undefined ? parameters['entry'] : `${namespace}/${short}`,
          ...readNames(sent?.value),
        },
        data:
          log.requestBytes > 0 || response !== undefined
            ? { request: log.requestBytes > 0 ? sent?.text : undefined, response }
            : undefined,
      },
      { error: c.error, startedAt },
    )
  }
}

function readNames(body: unknown) {
  const { name, source, server, skill } = (body ?? {}) as Record<string, unknown>
  const entry = (server ?? skill) as { readonly name?: unknown; readonly version?: unknown } | undefined
  return {
    ...pickTexts({ name, source }),
    ...(entry === undefined || entry === null ? {} : pickTexts({ entry: entry.name, version: entry.version })),
  }
}

const pickTexts = (values: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).filter((pair): pair is [string, string] => typeof pair[1] === 'string'))
