import { PublicError } from '../../../server/errors.ts'
import { REQUEST_ID } from '../../../server/request-id.ts'
import { errorText } from '../../mcp/rpc-text.ts'
import { EventWriter } from '../../request/event-writer.ts'
import { OK } from '../../request/exchange.ts'
import type { TokenHolder } from '../../request/token-watch.ts'
import type { EventSink } from '../../sessions/relay/event-sink.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type EventId, eventIdText, LAST_SEQ } from '../../sessions/streams/event-id.ts'
import type { EndpointExchange } from '../incoming/endpoint-exchange.ts'
import { SessionStream } from './session-stream.ts'

/** The longest time for another replica to send its stored events. */
const PATIENCE_MS = 2_000

/**
 * Resumes the answer to a request for a client that has lost its connection: sends the missed events, then new ones.
 * HTTP 204 means that there are no more. If the answer is lost, the client gets an error instead.
 */
export function resumeAnswer(request: EndpointExchange, session: Session, after: EventId): void {
  const { streams } = request.gateway
  const log = streams.find(session.record.id, after)
  if (after.seq === LAST_SEQ || log?.hasMoreThan(after.seq) === false) {
    request.reply.empty(204)
    request.ended(OK)
    return
  }
  const { res } = request
  const writer = new EventWriter(res, request.share, [
    ...['mcp-session-id', session.record.id],
    ...[REQUEST_ID, request.requestId],
  ])
  const sink = new AnswerSink(writer, after)
  const { tokens } = request.gateway
  const holder: TokenHolder = { context: request, checkedAt: performance.now(), tokenEnded: () => res.end() }
  tokens.add(holder)
  const closed = (): void => {
    tokens.delete(holder)
    if (log !== undefined) log.detach(sink)
    else unfollow?.()
    request.ended(OK)
  }
  res.once('close', closed)
  const unfollow = log === undefined ? streams.followRemote(session.record.id, after, sink) : undefined
  if (log?.attach(sink, after.seq) === false) sink.abort()
}

/** A client's connection for the rest of an answer. If the rest is lost, the client gets an error instead. */
class AnswerSink implements EventSink {
  readonly #writer: EventWriter
  readonly #after: EventId

  constructor(writer: EventWriter, after: EventId) {
    this.#writer = writer
    this.#after = after
  }

  event(data: Buffer, id?: string): boolean {
    return this.#writer.event(data, id)
  }

  part(data: Buffer, id?: string): boolean {
    return this.#writer.part(data, id)
  }

  onDrain(next: () => void): void {
    this.#writer.onDrain(next)
  }

  heartbeat(): void {
    this.#writer.heartbeat()
  }

  end(): void {
    this.#writer.end()
  }

  abort(): void {
    if (this.#writer.inEvent) {
      this.#writer.abort()
      return
    }
    const error = errorText(this.#after.request, new PublicError('answer_lost'))
    this.#writer.event(Buffer.from(error), eventIdText({ ...this.#after, seq: LAST_SEQ }))
    this.#writer.end()
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
  const log = after === undefined ? undefined : streams.find(session.record.id, after)
  if (after !== undefined && before instanceof SessionStream && before.is(log)) {
    before.resumeOn(request, after.seq)
    return
  }
  // A client that reconnects has lost its old stream, even if this replica has not noticed.
  before?.end()
  const writer = new EventWriter(request.res, request.share, [
    ...['mcp-session-id', session.record.id],
    ...[REQUEST_ID, request.requestId],
  ])
  const stream = new SessionStream(request, session, writer)
  session.stream = stream
  await sessions.serverMessages.subscribe(session)
  if (after !== undefined) {
    const missed = new Collected()
    const unfollow = log === undefined ? streams.followRemote(session.record.id, after, missed) : undefined
    if (log?.attach(missed, after.seq) === false) missed.abort()
    await missed.whole
    unfollow?.()
    missed.giveTo(writer)
  }
  stream.begin()
}

/** Collects the events of a stream that has ended, at least at this replica. */
class Collected implements EventSink {
  /** Resolves when all events were received or no more will come. */
  readonly whole: Promise<void>
  readonly #events: (readonly [data: Buffer, id: string | undefined])[] = []
  readonly #resolve: () => void

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, PATIENCE_MS)
    this.whole = promise.finally(() => clearTimeout(timer))
    this.#resolve = resolve
  }

  /** Sends all events to a sink. */
  giveTo(sink: EventSink): void {
    for (const [data, id] of this.#events) sink.event(data, id)
  }

  event(data: Buffer, id?: string): boolean {
    this.#events.push([data, id])
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
    this.#resolve()
  }

  abort(): void {
    this.#resolve()
  }
}
