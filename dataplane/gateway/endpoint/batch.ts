import { PublicError } from '../../server/errors.ts'
import { type Message, parseElement } from '../mcp/message.ts'
import { VERSION_KEY, WITH_BATCHES } from '../mcp/revisions.ts'
import { OK } from '../request/exchange.ts'
import type { Reply } from '../request/reply.ts'
import { BatchAnswers, type BatchPart } from './batch-answers.ts'
import { EndpointExchange } from './incoming/endpoint-exchange.ts'
import { requireSession, serveInSession } from './methods.ts'

const MOST_MESSAGES = 64

/**
 * Serves a batch. Revision 2025-03-26 must accept batches; all others reject them. Each message is served as if it were
 * alone, and the answers are returned together.
 */
export async function serveBatch(request: EndpointExchange, texts: readonly string[]): Promise<void> {
  const session = await requireSession(request)
  if (session.record.revision !== WITH_BATCHES) throw refused(`Batches are taken in revision ${WITH_BATCHES} alone.`)
  if (texts.length === 0 || texts.length > MOST_MESSAGES) throw refused(`A batch holds 1 to ${MOST_MESSAGES} messages.`)
  const messages = texts.map(parseElement)
  if (messages.some(isAlone)) throw refused('A batch holds neither initialize nor messages of later revisions.')
  const { res, share, requestId } = request
  const onEnd = () => request.ended(OK)
  const answers = new BatchAnswers(res, { share, requestId, missing: messages.length, onEnd })
  for (const message of messages) {
    const part = new EndpointExchange(request.gateway, res, new BatchedReply(answers), request)
    part.inSession(session).understand(message).run(serveInSession)
  }
}

const refused = (message: string): PublicError => new PublicError('invalid_message', { message })

const isAlone = ({ method, meta }: Message): boolean => method === 'initialize' || meta?.[VERSION_KEY] !== undefined

/**
 * Answers a message of a batch. Messages before the answer (progress, logs) are dropped, because the array can't
 * contain them.
 */
class BatchedReply implements Reply, BatchPart {
  readonly waiting: Buffer[] = []
  isWhole = false
  readonly streaming = false
  readonly #answers: BatchAnswers
  #onDrained: (() => void) | undefined

  constructor(answers: BatchAnswers) {
    this.#answers = answers
  }

  get begun(): boolean {
    return this.#answers.hasBegun(this)
  }

  json(_status: number, body: string | Buffer): void {
    if (this.isWhole) return
    this.#answers.part(this, typeof body === 'string' ? Buffer.from(body) : body)
    this.end()
  }

  pieces(pieces: readonly Buffer[]): void {
    for (const piece of pieces) this.#answers.part(this, piece)
    this.end()
  }

  empty(): void {
    this.end()
  }

  stream(): void {
    // A batch is answered by one JSON array, never by a stream.
  }

  message(): boolean {
    return true
  }

  heartbeat(): void {
    // A JSON array can't contain heartbeats.
  }

  part(bytes: Buffer): boolean {
    return this.#answers.part(this, bytes)
  }

  onDrain(next: () => void): void {
    this.#onDrained = next
  }

  resume(): void {
    const next = this.#onDrained
    this.#onDrained = undefined
    next?.()
  }

  end(): void {
    if (this.isWhole) return
    this.isWhole = true
    this.#answers.ended(this)
  }

  disconnect(): boolean {
    return false
  }

  endUnanswered(): void {
    this.end()
  }

  /** Aborts an answer: it is left out or, if a part of it was written, the whole batch is aborted. */
  abort(): void {
    if (this.begun) this.#answers.cut()
    this.waiting.length = 0
    this.end()
  }
}
