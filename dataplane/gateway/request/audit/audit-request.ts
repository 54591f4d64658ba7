import type { IncomingMessage } from 'node:http'
import { type AuditEvent, type AuditLog, type AuditOutcome, classifyStatus } from '../../../audit/event.ts'
import { type AuditEventType, METHOD_EVENTS } from '../../../config/audit/event-types.ts'
import type { Caller } from '../../../identity/caller.ts'
import { type ErrorCode, errorTable } from '../../../server/errors.ts'
import type { Observation, Origin, Outcome } from '../../../telemetry/observe.ts'
import type { Message } from '../../mcp/message.ts'
import type { Reply } from '../reply.ts'
import { clientNameIn, plainUri } from '../request-details.ts'
import { isErrorResult, RecordedReply } from './recorded-reply.ts'

const methodEvents = new Map<string, AuditEventType>(Object.entries(METHOD_EVENTS))
/** Events for requests without an understood message, by HTTP method. */
const bareEvents = new Map<string | undefined, AuditEventType>([
  ['GET', 'sse_connection'],
  ['DELETE', 'session_ended'],
])
const UNAUTHENTICATED: ReadonlySet<string | undefined> = new Set(['unauthenticated', 'insufficient_scope'])

/** A request to the MCP endpoint as the audit log sees it. */
interface AskedRequest {
  readonly req: IncomingMessage
  readonly reply: Reply
  readonly requestId: string
  readonly caller: Caller
  readonly startedAt: number
  /** The message, if it was understood. */
  readonly message: Message | undefined
  readonly observation: Observation | undefined
  incoming: NonNullable<Origin['incoming']>
  readonly session: { readonly record: { readonly id: string } } | undefined
  readonly sessionId: string | undefined
  readonly backend: string | undefined
  readonly digest: string | undefined
}

/** Writes the audit events of a request that has ended. */
export function auditRequest(log: AuditLog, context: AskedRequest, ended: Outcome): void {
  const { message } = context
  const type = typeOf(context, message, ended)
  if (type === undefined) return
  const isStart = type === 'mcp_initialize' && ended.result === 'ok'
  if (!log.wants(type) && !(isStart && log.wants('session_started'))) return
  const event = eventOf(log, context, { type, ended })
  log.write(event)
  if (isStart) log.write({ ...event, type: 'session_started', durationMs: undefined })
}

function typeOf({ req }: AskedRequest, message: Message | undefined, ended: Outcome): AuditEventType | undefined {
  if (message === undefined) {
    if (UNAUTHENTICATED.has(ended.code)) return 'authentication_failed'
    // A batch: each of its messages has its own event.
    if (ended.result === 'ok' && req.method === 'POST') return undefined
    return bareEvents.get(req.method) ?? 'http_request'
  }
  if (message.kind === 'response') return 'mcp_response'
  const rest = message.kind === 'request' ? 'mcp_request' : 'mcp_notification'
  return methodEvents.get(message.method) ?? rest
}

function eventOf(
  log: AuditLog,
  context: AskedRequest,
  { type, ended }: { readonly type: AuditEventType; readonly ended: Outcome },
): AuditEvent {
  const { req, reply, message } = context
  const hasFailed = log.tellsApplicationErrors && message !== undefined && isErrorResult(reply, message.method)
  const uri = message?.parameter('uri')
  const { request, requestId, traceparent, caller, client, session } = aboutRequest(context)
  // Each member by name: a spread costs as much as the rest of the event.
  return {
    type,
    outcome: hasFailed && ended.result === 'ok' ? 'application_error' : outcome(ended),
    error: ended.result === 'ok' ? undefined : (ended.code ?? 'backend_error'),
    request,
    requestId,
    traceparent,
    durationMs: performance.now() - context.startedAt,
    caller,
    client,
    target: {
      http_method: req.method,
      method: message?.method === '' ? undefined : message?.method,
      name: message?.parameter('name') ?? (uri === undefined ? undefined : plainUri(uri)),
      backend: context.backend,
      digest: context.digest,
    },
    session,
    data: dataOf(log, context, message),
  }
}

/** Returns the members that describe a request in each of its events. */
export function aboutRequest(context: AskedRequest) {
  const { req: request, caller, requestId, session, message } = context
  return {
    request,
    requestId,
    traceparent: context.observation?.trace?.traceparent ?? context.incoming()?.traceparent,
    caller,
    client: clientOf(message),
    session: session?.record.id ?? context.sessionId,
  } satisfies Partial<AuditEvent>
}

function outcome({ result, code }: Outcome): AuditOutcome {
  if (result === 'ok') return 'success'
  const row = code === undefined ? undefined : errorTable[code as ErrorCode]
  return result === 'denied' || (row !== undefined && classifyStatus(row.http) === 'denied') ? 'denied' : 'failure'
}

/** Returns the client's description of itself. */
function clientOf(message: Message | undefined): AuditEvent['client'] {
  const name = message && clientNameIn(message)
  return name === undefined ? undefined : { name }
}

function dataOf(log: AuditLog, { reply }: AskedRequest, message: Message | undefined): AuditEvent['data'] {
  if (log.requestBytes === 0 && log.responseBytes === 0) return undefined
  const response = log.responseBytes > 0 && reply instanceof RecordedReply ? reply.text : undefined
  return { request: log.requestBytes === 0 ? undefined : message?.text, response }
}
