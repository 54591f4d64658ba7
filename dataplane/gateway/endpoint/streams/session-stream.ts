import type { Caller } from '../../../identity/caller.ts'
import { PublicError } from '../../../server/errors.ts'
import { REQUEST_ID } from '../../../server/request-id.ts'
import { readUpdatedUri } from '../../backends/session/resource-watch.ts'
import { isLate } from '../../limits/is-late.ts'
import { parseJson } from '../../mcp/json.ts'
import { errorText } from '../../mcp/rpc-text.ts'
import { OK } from '../../request/exchange.ts'
import { EventWriter } from '../../request/reply.ts'
import type { TokenHolder } from '../../request/token-watch.ts'
import type { EventSink } from '../../sessions/relay/relays.ts'
import type { ClientStream, Session } from '../../sessions/session.ts'
import { type EventId, type EventLog, eventIdText, LAST_SEQ } from '../../sessions/streams/event-log.ts'
import { mayStillRead } from '../catalog/caller-catalog.ts'
import type { EndpointExchange } from '../incoming/endpoint-exchange.ts'

/** The longest time for another replica to send its stored events. */
const PATIENCE_MS = 2_000

/**
 * Resumes the answer to a request for a client that has lost its connection: sends the missed events, then new ones.
 * HTTP 204 means that there are no more. If the answer is lost, the client gets an error instead.
 */
export function resumeAnswer(request: EndpointExchange, session: Session, after: EventId): void {
  const { streams } = request.gateway
  const log = streams.logs.find(session.record.id, after.stream)
  if (after.seq === LAST_SEQ || log?.hasMoreThan(after.seq) === false) {
    request.reply.empty(204)
    request.ended(OK)
    return
  }
  const { res } = request
  const sink = new ResumedAnswer(request, session, after)
  const { tokens } = request.gateway
  const holder: TokenHolder = { context: request, checkedAt: performance.now(), tokenEnded: () => res.end() }
  tokens.add(holder)
  const onClose = (): void => {
    tokens.delete(holder)
    if (log !== undefined) log.detach(sink)
    else unfollow?.()
    request.ended(OK)
  }
  res.once('close', onClose)
  const unfollow = log === undefined ? streams.followRemote(session.record.id, after, sink) : undefined
  if (log?.attach(sink, after.seq) === false) sink.abort()
}

/** A client's connection for a stream of its session, begun at once. */
class SessionWriter extends EventWriter {
  constructor({ res, share, requestId }: EndpointExchange, { record }: Session) {
    super(res, share, ['mcp-session-id', record.id, REQUEST_ID, requestId])
  }
}

/** A client's connection for the rest of an answer. If the rest is lost, the client gets an error instead. */
class ResumedAnswer extends SessionWriter {
  readonly #after: EventId

  constructor(request: EndpointExchange, session: Session, after: EventId) {
    super(request, session)
    this.#after = after
  }

  override abort(): void {
    if (this.inEvent) {
      super.abort()
      return
    }
    const error = errorText(this.#after.request, new PublicError('answer_lost'))
    this.event(Buffer.from(error), eventIdText({ ...this.#after, seq: LAST_SEQ }))
    this.end()
  }
}

/**
 * Opens a client's GET stream. It begins with the missed events of the stream that it resumes, whichever replica has
 * them.
 */
export async function openSessionStream(
  request: EndpointExchange,
  session: Session,
  after: EventId | undefined,
): Promise<void> {
  const { streams, sessions } = request.gateway
  const before = session.stream
  const log = after === undefined ? undefined : streams.logs.find(session.record.id, after.stream)
  if (after !== undefined && before instanceof SessionStream && before.is(log)) {
    before.resumeOn(request, after.seq)
    return
  }
  // A client that reconnects has lost its old stream, even if this replica has not noticed.
  before?.end()
  const writer = new SessionWriter(request, session)
  const stream = new SessionStream(request, session, writer)
  session.stream = stream
  await sessions.serverMessages.subscribe(session)
  if (after !== undefined) {
    const missed = new Collected()
    const unfollow = log === undefined ? streams.followRemote(session.record.id, after, missed) : undefined
    if (log?.attach(missed, after.seq) === false) missed.abort()
    await missed.whole
    unfollow?.()
    for (const [data, id] of missed.events) writer.event(data, id)
  }
  stream.begin()
}

/** Collects the events of a stream that has ended, at least at this replica. */
class Collected implements EventSink {
  readonly events: (readonly [data: Buffer, id: string | undefined])[] = []
  readonly #over = Promise.withResolvers<void>()
  /** Resolves when all events were received or no more will come. */
  readonly whole = isLate(this.#over.promise, PATIENCE_MS)

  event(data: Buffer, id?: string): boolean {
    this.events.push([data, id])
    return true
  }

  part(): boolean {
    return true
  }

  onDrain(next: () => void): void {
    next()
  }

  heartbeat(): void {
    // Events are collected, so there is no connection to keep open.
  }

  end(): void {
    this.#over.resolve()
  }

  abort(): void {
    this.#over.resolve()
  }
}

/** The most bytes that a client may leave unread. Beyond it the connection is ended. */
const MOST_UNREAD = 256 * 1024
/** The time for which messages are stored for a client that has lost its connection. */
const AWAY_MS = 60_000

/**
 * The stream on which a legacy client gets messages outside of any request. It outlives its connection for a while and
 * stores messages for a client that resumes it.
 */
class SessionStream implements ClientStream {
  readonly #request: EndpointExchange
  readonly #session: Session
  readonly #log: EventLog
  #connection: EventWriter | undefined
  #away: NodeJS.Timeout | undefined
  #isOver = false
  /** The request whose response carries, or last carried, the stream. */
  #reader: EndpointExchange

  constructor(request: EndpointExchange, session: Session, writer: EventWriter) {
    this.#request = request
    this.#reader = request
    this.#session = session
    this.#log = request.gateway.streams.open(session.record)
    this.#log.onTaken = () => this.end()
    this.#connect(request, writer)
  }

  /** Tells whether this is the stream that the client resumes. */
  is(log: EventLog | undefined): boolean {
    return log === this.#log && !this.#isOver
  }

  /** Begins to send, first the stored messages. */
  begin(): void {
    if (this.#connection !== undefined) this.#log.begin(this.#connection)
  }

  /** Continues after an event, on another connection. */
  resumeOn(request: EndpointExchange, after: number): void {
    const writer = new SessionWriter(request, this.#session)
    this.#connect(request, writer)
    this.#log.attach(writer, after)
  }

  #connect(request: EndpointExchange, writer: EventWriter): void {
    clearTimeout(this.#away)
    this.#connection = writer
    this.#reader = request
    const { tokens } = request.gateway
    // The stream itself continues, and its client can resume it with another token.
    const holder: TokenHolder = { context: request, checkedAt: performance.now(), tokenEnded: () => writer.end() }
    tokens.add(holder)
    request.res.once('close', () => {
      tokens.delete(holder)
      request.ended(OK)
      this.#disconnected(writer)
    })
  }

  #disconnected(writer: EventSink): void {
    if (this.#connection !== writer) return
    this.#connection = undefined
    this.#log.detach(writer)
    if (this.#isOver) return
    if (!this.#log.isKnown) {
      this.end()
      return
    }
    this.#away = setTimeout(() => this.#abandon(), AWAY_MS)
    this.#away.unref()
  }

  /** Ends the stream because its client has not resumed it in time. */
  #abandon(): void {
    this.end()
    this.#request.gateway.sessions.streamAbandoned(this.#session)
  }

  get isConnected(): boolean {
    return this.#connection !== undefined
  }

  get binding(): string {
    return this.#reader.binding
  }

  get caller(): Caller {
    return this.#reader.caller
  }

  send(message: string): void {
    if (!this.#mayHear(message)) return
    this.#log.event(Buffer.from(message))
    // Unread messages stay stored, so the client can resume the stream.
    if ((this.#connection?.unread ?? 0) > MOST_UNREAD) this.#connection?.abort()
  }

  /**
   * Tells whether the client may still see the subject of a message, because policies may have changed since it
   * subscribed.
   */
  #mayHear(message: string): boolean {
    const { setup, gated } = this.#request.gateway
    if ((setup.authorizer === undefined && gated.enforced === undefined) || !message.includes('updated')) return true
    const uri = readUpdatedUri(parseJson(message))
    return uri === undefined || mayStillRead(this.#reader, uri)
  }

  heartbeat(): void {
    this.#log.heartbeat()
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#away)
    if (this.#session.stream === this) {
      this.#session.stream = undefined
      for (const backendSession of this.#session.openBackendSessions) backendSession.inbox.unsubscribe()
    }
    this.#log.end()
  }
}
