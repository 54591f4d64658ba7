import { EventWriter } from '../request/event-writer.ts'
import { OK } from '../request/request-context.ts'
import type { TokenHolder } from '../request/token-holder.ts'
import type { EventSink } from '../sessions/relay/event-sink.ts'
import type { ClientStream, Session } from '../sessions/sessions.ts'
import type { EventLog } from '../sessions/streams/event-log.ts'
import type { EndpointRequest } from './endpoint-request.ts'

/** What a client that does not read may leave unread before its connection is ended. */
const MOST_UNREAD = 256 * 1024
/** How long messages are kept for a client that has lost its connection. */
const AWAY_MS = 60_000

/**
 * The stream on which a legacy client gets messages outside of any request. It outlives its connection for a while: what
 * is sent meanwhile is kept for a client that resumes it.
 */
export class SessionStream implements ClientStream {
  readonly #request: EndpointRequest
  readonly #session: Session
  readonly #log: EventLog
  #connection: EventWriter | undefined
  #away: NodeJS.Timeout | undefined
  #isOver = false

  constructor(request: EndpointRequest, session: Session, writer: EventWriter) {
    this.#request = request
    this.#session = session
    this.#log = request.gateway.streams.open(session.record)
    this.#log.onTaken = () => this.end()
    this.#connect(request, writer)
  }

  /** Whether this is the stream that a client wants to go on with. */
  is(log: EventLog | undefined): boolean {
    return log === this.#log && !this.#isOver
  }

  /** Begins to send; what has been sent so far comes first. */
  begin(): void {
    if (this.#connection !== undefined) this.#log.begin(this.#connection)
  }

  /** Goes on behind an event on another connection. */
  resumeOn(request: EndpointRequest, after: number): void {
    const writer = new EventWriter(request.res, request.share, ['mcp-session-id', this.#session.record.id])
    this.#connect(request, writer)
    this.#log.attach(writer, after)
  }

  #connect(request: EndpointRequest, writer: EventWriter): void {
    clearTimeout(this.#away)
    this.#connection = writer
    const { tokens } = request.gateway
    // The stream goes on: its client resumes it with another token.
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

  /** The client has not resumed the stream. */
  #abandon(): void {
    this.end()
    this.#request.gateway.sessions.streamAbandoned(this.#session)
  }

  send(message: string): void {
    this.#log.event(Buffer.from(message))
    // What it has not read is kept: it may resume the stream.
    if ((this.#connection?.unread ?? 0) > MOST_UNREAD) this.#connection?.abort()
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
      for (const backendSession of this.#session.openBackendSessions) backendSession.unsubscribe()
    }
    this.#log.end()
  }
}
