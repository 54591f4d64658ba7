import type { ServerResponse } from 'node:http'
import { Reservation, type Share } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import { REQUEST_ID } from '../../server/request-id.ts'
import { VERSION_KEY, WITH_BATCHES } from '../mcp/eras.ts'
import { type Message, parseElement } from '../mcp/message.ts'
import { OK } from '../request/exchange.ts'
import { type Reply, Unread } from '../request/reply.ts'
import { EndpointExchange } from './incoming/endpoint-exchange.ts'
import { requireSession, serveInSession } from './methods.ts'

const MOST_MESSAGES = 64

/**
 * Serves a batch. Revision 2025-03-26 must accept batches; all others reject them. Each message is served as if it were
 * alone, and the answers are returned together.
 */
export async function serveBatch(request: EndpointExchange, texts: readonly string[]): Promise<void> {
  const session = await requireSession(request)
  if (session.record.revision !== WITH_BATCHES)
    throw invalidMessage(`Batches are taken in revision ${WITH_BATCHES} alone.`)
  if (texts.length === 0 || texts.length > MOST_MESSAGES)
    throw invalidMessage(`A batch holds 1 to ${MOST_MESSAGES} messages.`)
  const messages = texts.map(parseElement)
  if (messages.some(isAlone)) throw invalidMessage('A batch holds neither initialize nor messages of later revisions.')
  const { res, share, requestId } = request
  const onEnd = () => request.ended(OK)
  const answers = new BatchAnswers(res, { share, requestId, missing: messages.length, onEnd })
  for (const message of messages) {
    const part = new EndpointExchange(request.gateway, res, new BatchedReply(answers), request)
    part.inSession(session).understand(message).run(serveInSession)
  }
}

const invalidMessage = (message: string): PublicError => new PublicError('invalid_message', { message })

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

/** One answer of a batch, which arrives whole or in parts. */
export interface BatchPart {
  /** The bytes that arrived while another answer was being written. */
  readonly waiting: Buffer[]
  /** True if the answer is complete, so that `waiting` no longer grows. */
  readonly isWhole: boolean
  /** Resumes the source. */
  resume(): void
}

interface BatchOptions {
  readonly share: Share | undefined
  readonly requestId: string
  readonly missing: number
  onEnd(): void
}

/**
 * Writes the answers to a batch as one array, in the order of their arrival. A large answer is written while its parts
 * arrive, one at a time; the others and their backends wait. Waiting bytes count in `share`.
 */
export class BatchAnswers {
  readonly #res: ServerResponse
  readonly #unread: Unread
  readonly #reservation: Reservation | undefined
  readonly #queue: BatchPart[] = []
  readonly #onEnd: () => void
  readonly #id: readonly string[]
  #missing: number
  #current: BatchPart | undefined
  #isBegun = false

  constructor(res: ServerResponse, { share, requestId, missing, onEnd }: BatchOptions) {
    this.#res = res
    this.#unread = new Unread(res, share)
    this.#reservation = share === undefined ? undefined : new Reservation(share)
    this.#missing = missing
    this.#id = [REQUEST_ID, requestId]
    this.#onEnd = onEnd
    res.once('close', () => this.#closed())
    res.on('drain', () => this.#current?.resume())
  }

  /** Writes bytes of an answer. Returns false if the source must pause until `resume`. */
  part(part: BatchPart, bytes: Buffer): boolean {
    if (this.#res.destroyed) return true
    if (this.#current === undefined) this.#begin(part)
    if (this.#current === part) return this.#write(bytes)
    if (part.waiting.length === 0) this.#queue.push(part)
    part.waiting.push(bytes)
    const waiting = this.#queue.reduce(
      (sum, { waiting }) => sum + waiting.reduce((size, { length }) => size + length, 0),
      0,
    )
    if (this.#reservation?.resize(waiting) === false) this.cut()
    return false
  }

  /** Completes an answer, or removes it if nothing of it was written. */
  ended(part: BatchPart): void {
    if (this.#current === part) {
      this.#current = undefined
      this.#next()
    }
    this.#missing--
    this.#finish()
  }

  /** Tells whether some of this answer has been written. */
  hasBegun(part: BatchPart): boolean {
    return this.#current === part
  }

  cut(): void {
    this.#res.destroy()
  }

  #begin(part: BatchPart): void {
    this.#current = part
    if (!this.#isBegun) this.#res.writeHead(200, ['content-type', 'application/json', ...this.#id])
    this.#res.write(this.#isBegun ? ',' : '[')
    this.#isBegun = true
  }

  #write(bytes: Buffer): boolean {
    const hasRoom = this.#res.write(bytes)
    if (!hasRoom) this.#unread.check()
    return hasRoom
  }

  /** Starts to write the answer that has waited for longest. */
  #next(): void {
    while (this.#current === undefined) {
      const part = this.#queue.shift()
      if (part === undefined) break
      if (part.isWhole && part.waiting.length === 0) continue
      this.#begin(part)
      let hasRoom = true
      for (const bytes of part.waiting.splice(0)) hasRoom = this.#write(bytes)
      if (part.isWhole) this.#current = undefined
      else if (hasRoom) part.resume()
    }
    if (this.#queue.length === 0) this.#reservation?.release()
  }

  #finish(): void {
    if (this.#missing > 0) return
    this.#reservation?.release()
    if (!this.#res.destroyed) {
      if (this.#isBegun) this.#res.end(']')
      else this.#res.writeHead(202, ['content-length', '0', ...this.#id]).end()
    }
    this.#onEnd()
  }

  /** Resumes all waiting sources after the client has disconnected, so that they can end. */
  #closed(): void {
    this.#reservation?.release()
    const waiting = this.#queue.splice(0)
    if (this.#current !== undefined) waiting.push(this.#current)
    for (const part of waiting) {
      part.waiting.length = 0
      part.resume()
    }
  }
}
