import type { IncomingMessage } from 'node:http'
import { type AuditEvent, type AuditLog, type AuditOutcome, classifyStatus } from '../../audit/event.ts'
import { type AuditEventType, METHOD_EVENTS } from '../../config/audit/event-types.ts'
import { withoutUrlSecrets } from '../../config/check/url.ts'
import type { Caller } from '../../identity/caller.ts'
import { type ErrorCode, errorTable } from '../../server/errors.ts'
import { CLOSE_OBJECT, COLON, COMMA, JsonSkipper, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../server/json-lexer.ts'
import type { Details, Observation, Operation, Origin, Outcome } from '../../telemetry/observe.ts'
import type { Message } from '../mcp/message.ts'
import type { Reply } from './reply.ts'

const LETTER_T = 0x74
/** The longest member name that can be one of those looked for. */
const LONGEST_NAME = 16

/** The member's name and the quote after it. */
const MEMBER = 'isError"'

export const recordsAnswers = ({ responseBytes, tellsApplicationErrors }: AuditLog): boolean =>
  responseBytes > 0 || tellsApplicationErrors

/** A reply that also records the start of the answer and whether it is a tool's error result. */
export class RecordedReply implements Reply {
  readonly #reply: Reply
  readonly #most: number
  readonly #kept: Buffer[] = []
  #size = 0
  readonly #errorResult: ErrorResult | undefined

  constructor(reply: Reply, log: Pick<AuditLog, 'responseBytes' | 'tellsApplicationErrors'>) {
    this.#reply = reply
    this.#most = log.responseBytes
    this.#errorResult = log.tellsApplicationErrors ? new ErrorResult() : undefined
  }

  /** Tells whether this reply detects a tool's error result. */
  get findsErrorResult(): boolean {
    return this.#errorResult !== undefined
  }

  /** The beginning of the answer, as far as it was recorded; undefined if there is none. */
  get text(): string | undefined {
    return this.#size === 0 ? undefined : Buffer.concat(this.#kept).toString('utf8')
  }

  get isErrorResult(): boolean {
    return this.#errorResult?.isError === true
  }

  #record(bytes: Buffer): void {
    this.#errorResult?.push(bytes)
    // One byte more than is written shows that there is more.
    const room = this.#most === 0 ? 0 : this.#most + 1 - this.#size
    if (room <= 0) return
    // A copy: the chunk is a view of a larger buffer, which would be kept.
    const part = Buffer.from(bytes.subarray(0, room))
    this.#kept.push(part)
    this.#size += part.length
  }

  get begun(): boolean {
    return this.#reply.begun
  }

  get streaming(): boolean {
    return this.#reply.streaming
  }

  json(status: number, body: string | Buffer, extra?: readonly string[]): void {
    // Most whole answers have no such member, which native code finds out in a tenth of the time.
    if (this.#most > 0 || body.includes(MEMBER)) this.#record(typeof body === 'string' ? Buffer.from(body) : body)
    this.#reply.json(status, body, extra)
  }

  pieces(pieces: readonly Buffer[]): void {
    for (const piece of pieces) this.#record(piece)
    this.#reply.pieces(pieces)
  }

  empty(status: number, extra?: readonly string[]): void {
    this.#reply.empty(status, extra)
  }

  stream(): void {
    this.#reply.stream()
  }

  message(text: string | Buffer): boolean {
    return this.#reply.message(text)
  }

  heartbeat(): void {
    this.#reply.heartbeat()
  }

  part(bytes: Buffer): boolean {
    this.#record(bytes)
    return this.#reply.part(bytes)
  }

  onDrain(next: () => void): void {
    this.#reply.onDrain(next)
  }

  end(): void {
    this.#reply.end()
  }

  disconnect(): boolean {
    return this.#reply.disconnect()
  }

  endUnanswered(): void {
    this.#reply.endUnanswered()
  }

  abort(): void {
    this.#reply.abort()
  }
}

/** The parts of an answer that telemetry needs. */
const FOR_TELEMETRY = { responseBytes: 0, tellsApplicationErrors: true }

const OF_TOOLS: ReadonlySet<string> = new Set(['tools/call', 'tasks/result'])

/** Returns a reply to a message of this method that detects a tool's error result. */
export function findingErrorResult(reply: Reply, method: string): Reply {
  if (!OF_TOOLS.has(method) || (reply instanceof RecordedReply && reply.findsErrorResult)) return reply
  return new RecordedReply(reply, FOR_TELEMETRY)
}

/** Tells whether the answer to a message of this method was a tool's error result, if the reply detects that. */
export const isErrorResult = (reply: Reply, method: string): boolean =>
  reply instanceof RecordedReply && reply.isErrorResult && OF_TOOLS.has(method)

/** Detects `isError: true` in the result of a `tools/call` answer that comes in parts. Linear; it keeps nothing. */
class ErrorResult {
  isError = false
  readonly #skipper = new JsonSkipper()
  /** 0 before the answer, 1 in it, 2 in its result. */
  #depth = 0
  /** The last string at this depth, or its beginning. */
  #last = ''
  #name = ''
  #isName = false

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#skipper.isOpen) {
        const start = at
        at =
          this.#skipper.inString && this.#skipper.depth === 0
            ? this.#string(chunk, start)
            : this.#skipper.skip(chunk, at)
        continue
      }
      this.#token(chunk[at] as number)
      at++
    }
  }

  #string(chunk: Buffer, start: number): number {
    const end = this.#skipper.skip(chunk, start)
    if (this.#last.length < LONGEST_NAME)
      this.#last += chunk.toString('latin1', start, Math.min(end, start + LONGEST_NAME))
    return end
  }

  #token(byte: number): void {
    if (byte === QUOTE) {
      this.#last = ''
      this.#skipper.inString = true
    } else if (byte === COLON) {
      this.#name = this.#last
      this.#isName = true
    } else if (
      byte === OPEN_OBJECT &&
      (this.#depth === 0 || (this.#depth === 1 && this.#isName && this.#name === 'result"'))
    ) {
      this.#depth++
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#skipper.depth = 1
    else if (byte === CLOSE_OBJECT) this.#depth--
    else if (byte === LETTER_T && this.#depth === 2 && this.#isName && this.#name === MEMBER) this.isError = true
    if (byte === COMMA || byte === CLOSE_OBJECT || byte === OPEN_OBJECT) this.#isName = false
  }
}

/** Methods whose parameter `name` is that of a tool or a prompt. */
const named: Readonly<Record<string, string>> = {
  'tools/call': 'gen_ai.tool.name',
  'prompts/get': 'gen_ai.prompt.name',
}
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
const PROTOCOL = 'mcp-protocol-version'

/** Reads the trace context of a request: from its headers or else from `_meta`, which a stdio server would get. */
export function incomingTrace({ headers }: IncomingMessage, message: Message | undefined) {
  const { traceparent, tracestate } = headers
  if (traceparent !== undefined) return { traceparent, tracestate }
  const meta = message?.meta
  return meta?.['traceparent'] === undefined
    ? undefined
    : { traceparent: meta['traceparent'], tracestate: meta['tracestate'] }
}

/** Returns a message's attributes by the semantic conventions for MCP, without arguments and credentials. */
export function messageDetails(message: Message): Details {
  const { method } = message
  const uri = message.parameter('uri')
  const name = named[method]
  return {
    'mcp.method.name': method,
    'rpc.system.name': 'jsonrpc',
    'jsonrpc.protocol.version': '2.0',
    ...(name === undefined ? {} : { [name]: message.parameter('name') }),
    ...(method === 'tools/call' ? { 'gen_ai.operation.name': 'execute_tool' } : {}),
    ...(uri === undefined ? {} : { 'mcp.resource.uri': plainUri(uri) }),
  }
}

/** Returns an id (JSON text) as the semantic conventions write it: a string without its quotes. */
export const requestIdText = (id: string | undefined): string | undefined =>
  id?.startsWith('"') === true ? (JSON.parse(id) as string) : id

/** Returns the name of the tool or prompt that a message is about; undefined for other methods. */
export const usedBy = (message: Message): string | undefined =>
  named[message.method] === undefined ? undefined : message.parameter('name')

/** Returns the name that the client gives itself in a message; undefined if it gives none. */
export function readClientName({ params, meta }: Message): string | undefined {
  const info = params?.['clientInfo'] ?? meta?.[CLIENT_INFO]
  const name = (info as { readonly name?: unknown } | null | undefined)?.name
  return typeof name === 'string' ? name : undefined
}

/** Returns a URI without its query, fragment and credentials. */
const plainUri = (uri: string): string => withoutUrlSecrets(uri.split(/[?#]/, 1)[0] ?? '')

/** Returns the attributes of a request; `message` is undefined if none was understood. */
export function requestDetails(req: IncomingMessage, message: Message | undefined, client: string): Details {
  const version = req.headers[PROTOCOL]
  return {
    ...(message === undefined ? {} : messageDetails(message)),
    'jsonrpc.request.id': requestIdText(message?.id),
    'mcp.protocol.version': typeof version === 'string' ? version : undefined,
    'http.request.method': req.method,
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'client.address': client === '' ? undefined : client,
    'user_agent.original': req.headers['user-agent'],
  }
}

/** The methods of MCP, of every revision and of both directions. */
const operations = new Map<string, Operation>(
  [
    'initialize',
    'ping',
    'server/discover',
    'tools/list',
    'tools/call',
    'prompts/list',
    'prompts/get',
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'completion/complete',
    'logging/setLevel',
    'subscriptions/listen',
    'tasks/get',
    'tasks/update',
    'tasks/result',
    'tasks/list',
    'tasks/cancel',
    'elicitation/create',
    'roots/list',
    'sampling/createMessage',
    'notifications/cancelled',
    'notifications/elicitation/complete',
    'notifications/initialized',
    'notifications/message',
    'notifications/progress',
    'notifications/prompts/list_changed',
    'notifications/resources/list_changed',
    'notifications/resources/updated',
    'notifications/roots/list_changed',
    'notifications/subscriptions/acknowledged',
    'notifications/tasks',
    'notifications/tasks/status',
    'notifications/tools/list_changed',
  ].map((name) => [name, { kind: 'request', name }]),
)
/** The operation for a client's response to a server's request, which names no method. */
const RESPONSE: Operation = { kind: 'request', name: 'response' }
export const OTHER: Operation = { kind: 'request', name: 'other' }
/** Returns the operation of a method. Callers choose method names, so all unknown ones share one operation. */
export const findOperation = (method: string): Operation => operations.get(method) ?? (method === '' ? RESPONSE : OTHER)

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

export function auditRequest(log: AuditLog, context: AskedRequest, ended: Outcome): void {
  const { message } = context
  const type = chooseType(context, message, ended)
  if (type === undefined) return
  const isStart = type === 'mcp_initialize' && ended.result === 'ok'
  if (!log.wants(type) && !(isStart && log.wants('session_started'))) return
  const event = buildEvent(log, context, { type, ended })
  log.write(event)
  if (isStart) log.write({ ...event, type: 'session_started', durationMs: undefined })
}

function chooseType({ req }: AskedRequest, message: Message | undefined, ended: Outcome): AuditEventType | undefined {
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

function buildEvent(
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
    outcome: hasFailed && ended.result === 'ok' ? 'application_error' : classifyOutcome(ended),
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
    data: collectData(log, context, message),
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
    client: describeClient(message),
    session: session?.record.id ?? context.sessionId,
  } satisfies Partial<AuditEvent>
}

function classifyOutcome({ result, code }: Outcome): AuditOutcome {
  if (result === 'ok') return 'success'
  const row = code === undefined ? undefined : errorTable[code as ErrorCode]
  return result === 'denied' || (row !== undefined && classifyStatus(row.http) === 'denied') ? 'denied' : 'failure'
}

function describeClient(message: Message | undefined): AuditEvent['client'] {
  const name = message && readClientName(message)
  return name === undefined ? undefined : { name }
}

function collectData(log: AuditLog, { reply }: AskedRequest, message: Message | undefined): AuditEvent['data'] {
  if (log.requestBytes === 0 && log.responseBytes === 0) return undefined
  const response = log.responseBytes > 0 && reply instanceof RecordedReply ? reply.text : undefined
  return { request: log.requestBytes === 0 ? undefined : message?.text, response }
}
