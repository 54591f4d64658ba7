import type { IncomingMessage } from 'node:http'
import type { MiddlewareHandler } from 'hono'
import { type AuditEvent, type Auditing, type AuditLog, classifyStatus } from '../../../audit/event.ts'
import { PublicError } from '../../../server/errors.ts'
import type { OperationDescription, RegistryEnv } from './operation.ts'

/** The fields that audit events of both halves of the registry have in common. */
type Asked = Pick<AuditEvent, 'request' | 'requestId' | 'traceparent' | 'caller' | 'target' | 'data'>

/** Records a request that has ended. `error` is the reason of a refusal; `startedAt` is in `performance.now()`. */
export function auditAnswer(
  log: AuditLog,
  type: 'registry_read' | 'registry_write',
  asked: Asked,
  { error, startedAt }: { readonly error: unknown; readonly startedAt: number },
): void {
  const { code, status } = describeEnd(error)
  log.write({ ...asked, type, outcome: classifyStatus(status), error: code, durationMs: performance.now() - startedAt })
}

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

/** The operations that change nothing although they are POSTs. */
const ASKING: ReadonlySet<string> = new Set(['explain'])

/** Records requests to one operation in the audit log. */
export function auditOperation(
  audit: Auditing,
  { id, method }: Pick<OperationDescription, 'id' | 'method'>,
): MiddlewareHandler<RegistryEnv> {
  const type = method === 'get' || ASKING.has(id) ? 'registry_read' : 'registry_write'
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
          ...namesIn(sent?.value),
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

function namesIn(body: unknown) {
  const { name, source, server, skill } = (body ?? {}) as Record<string, unknown>
  const entry = (server ?? skill) as { readonly name?: unknown; readonly version?: unknown } | undefined
  return {
    ...texts({ name, source }),
    ...(entry === undefined || entry === null ? {} : texts({ entry: entry.name, version: entry.version })),
  }
}

const texts = (values: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).filter((pair): pair is [string, string] => typeof pair[1] === 'string'))
