import { PublicError } from '../../server/errors.ts'
import { VERSION_KEY } from '../mcp/classify.ts'
import { type Message, parseElement } from '../mcp/message.ts'
import { WITH_BATCHES } from '../mcp/revisions.ts'
import { serveInSession, sessionOf } from './legacy.ts'
import { Reply } from './reply.ts'
import { OK, Turn } from './turn.ts'

/** What a batch may hold, so that its answers, which must be gathered, stay within bounds. */
const MOST_MESSAGES = 64
const MOST_BYTES = 64 * 1024 * 1024

/**
 * Serves a batch: revision 2025-03-26 must take them, all others refuse them. Each message is served as if it had come
 * alone; the answers go back together.
 */
export async function serveBatch(turn: Turn, texts: readonly string[]): Promise<void> {
  const session = await sessionOf(turn)
  if (session.record.revision !== WITH_BATCHES) throw refused(`Batches are taken in revision ${WITH_BATCHES} alone.`)
  if (texts.length === 0 || texts.length > MOST_MESSAGES) throw refused(`A batch holds 1 to ${MOST_MESSAGES} messages.`)
  const messages = texts.map(parseElement)
  if (messages.some(isAlone)) throw refused('A batch holds neither initialize nor messages of later revisions.')
  const answers = new Answers(turn, messages.length)
  for (const message of messages) {
    const part = new Turn(turn.gateway, turn.req, new PartOfBatch(turn.reply, answers))
    part.caller = turn.caller
    part.binding = turn.binding
    part.session = session
    part.adopt(message)
    part.run(serveInSession)
  }
}

const refused = (message: string): PublicError => new PublicError('invalid_message', { message })

const isAlone = ({ method, meta }: Message): boolean => method === 'initialize' || meta?.[VERSION_KEY] !== undefined

/** Gathers the answers and sends them when all are there. */
class Answers {
  readonly #turn: Turn
  readonly #bodies: Buffer[] = []
  #missing: number
  #size = 0

  constructor(turn: Turn, missing: number) {
    this.#turn = turn
    this.#missing = missing
  }

  /** An answer; undefined where there is none to give. */
  add(body: Buffer | undefined): void {
    this.#missing--
    if (body !== undefined) this.#bodies.push(body)
    this.#size += body?.length ?? 0
    if (this.#missing > 0) return
    const { reply } = this.#turn
    if (this.#size > MOST_BYTES) reply.cut()
    else if (this.#bodies.length === 0) reply.empty(202)
    else reply.json(200, joined(this.#bodies))
    this.#turn.ended(OK)
  }
}

function joined(bodies: readonly Buffer[]): Buffer {
  const parts = bodies.flatMap((body) => [Buffer.from(','), body]).slice(1)
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')])
}

/** Takes the answer to one message of a batch. What comes before it (progress, logs) has no place in a batch. */
class PartOfBatch extends Reply {
  readonly #answers: Answers
  #parts: Buffer[] = []

  constructor({ res }: Reply, answers: Answers) {
    super(res)
    this.#answers = answers
  }

  override json(_status: number, body: string | Buffer): void {
    this.#answers.add(typeof body === 'string' ? Buffer.from(body) : body)
  }

  override empty(): void {
    this.#answers.add(undefined)
  }

  override stream(): void {}

  override message(): boolean {
    return true
  }

  override keepAlive(): void {}

  override part(bytes: Buffer): boolean {
    this.#parts.push(bytes)
    return true
  }

  override end(): void {
    this.#answers.add(this.#parts.length === 0 ? undefined : Buffer.concat(this.#parts))
  }

  /** An answer that broke off is none. */
  override cut(): void {
    this.#parts = []
    this.end()
  }
}
