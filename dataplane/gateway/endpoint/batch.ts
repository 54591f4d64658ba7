import { PublicError } from '../../server/errors.ts'
import { VERSION_KEY } from '../mcp/classify.ts'
import { type Message, parseElement } from '../mcp/message.ts'
import { WITH_BATCHES } from '../mcp/revisions.ts'
import { Reply } from '../request/reply.ts'
import { OK } from '../request/request-context.ts'
import { BatchAnswers, type BatchPart } from './batch-answers.ts'
import { EndpointRequest } from './endpoint-request.ts'
import { serveInSession, sessionOf } from './legacy.ts'

const MOST_MESSAGES = 64

/**
 * Serves a batch: revision 2025-03-26 must take them, all others refuse them. Each message is served as if it had come
 * alone; the answers go back together.
 */
export async function serveBatch(request: EndpointRequest, texts: readonly string[]): Promise<void> {
  const session = await sessionOf(request)
  if (session.record.revision !== WITH_BATCHES) throw refused(`Batches are taken in revision ${WITH_BATCHES} alone.`)
  if (texts.length === 0 || texts.length > MOST_MESSAGES) throw refused(`A batch holds 1 to ${MOST_MESSAGES} messages.`)
  const messages = texts.map(parseElement)
  if (messages.some(isAlone)) throw refused('A batch holds neither initialize nor messages of later revisions.')
  const { reply, share } = request
  const answers = new BatchAnswers(reply.res, { share, missing: messages.length, onEnd: () => request.ended(OK) })
  for (const message of messages) {
    const part = new EndpointRequest(request.gateway, request.req, new PartOfBatch(reply, answers))
    part.caller = request.caller
    part.binding = request.binding
    part.share = share
    part.session = session
    part.adopt(message)
    part.run(serveInSession)
  }
}

const refused = (message: string): PublicError => new PublicError('invalid_message', { message })

const isAlone = ({ method, meta }: Message): boolean => method === 'initialize' || meta?.[VERSION_KEY] !== undefined

/** Takes the answer to one message of a batch. What comes before it (progress, logs) has no place in a batch. */
class PartOfBatch extends Reply implements BatchPart {
  readonly waiting: Buffer[] = []
  isWhole = false
  readonly #answers: BatchAnswers
  #onFree: (() => void) | undefined

  constructor({ res }: Reply, answers: BatchAnswers) {
    super(res)
    this.#answers = answers
  }

  /** Whether some of this answer is with the client, and it can't become another one. */
  override get begun(): boolean {
    return this.#answers.hasBegun(this)
  }

  override json(_status: number, body: string | Buffer): void {
    if (this.isWhole) return
    this.#answers.part(this, typeof body === 'string' ? Buffer.from(body) : body)
    this.end()
  }

  override pieces(pieces: readonly Buffer[]): void {
    for (const piece of pieces) this.#answers.part(this, piece)
    this.end()
  }

  override empty(): void {
    this.end()
  }

  override stream(): void {}

  override message(): boolean {
    return true
  }

  override keepAlive(): void {}

  override part(bytes: Buffer): boolean {
    return this.#answers.part(this, bytes)
  }

  override onDrain(next: () => void): void {
    this.#onFree = next
  }

  goOn(): void {
    const next = this.#onFree
    this.#onFree = undefined
    next?.()
  }

  override end(): void {
    if (this.isWhole) return
    this.isWhole = true
    this.#answers.ended(this)
  }

  /** An answer that breaks off is none, unless some of it has been written: then there is none to any message. */
  override abort(): void {
    if (this.begun) this.#answers.cut()
    this.waiting.length = 0
    this.end()
  }
}
