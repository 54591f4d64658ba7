import type { Caller } from '../../../identity/caller.ts'
import { REQUEST_ID } from '../../../server/request-id.ts'
import { updatedUri } from '../../backends/session/resource-updates.ts'
import { resourceIn } from '../../core/view.ts'
import { parseJson } from '../../mcp/parse.ts'
import { EventWriter } from '../../request/event-writer.ts'
import { OK } from '../../request/exchange.ts'
import type { TokenHolder } from '../../request/token-watch.ts'
import type { EventSink } from '../../sessions/relay/event-sink.ts'
import type { ClientStream, Session } from '../../sessions/sessions.ts'
import type { EventLog } from '../../sessions/streams/event-log.ts'
import type { EndpointExchange } from '../incoming/endpoint-exchange.ts'

/** The most bytes that a client may leave unread. Beyond it the connection is ended. */
const MOST_UNREAD = 256 * 1024
/** The time for which messages are stored for a client that has lost its connection. */
const AWAY_MS = 60_000

/**
 * The stream on which a legacy client gets messages outside of any request. It outlives its connection for a while and
 * stores messages for a client that resumes it.
 */
export class SessionStream implements ClientStream {
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
    const writer = new EventWriter(request.res, request.share, [
      ...['mcp-session-id', this.#session.record.id],
      ...[REQUEST_ID, request.requestId],
    ])
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
    const isGated = gated.enforced !== undefined
    if ((setup.authorizer === undefined && !isGated) || !message.includes('updated')) return true
    const uri = updatedUri(parseJson(message))
    if (uri === undefined) return true
    const { view } = this.#reader
    if (isGated && resourceIn(view, uri) === undefined) return false
    return setup.authorizer === undefined || setup.authorizer.mayRead(this.caller, view.promptsAndResources, uri)
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
