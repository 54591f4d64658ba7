import type { Lease } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'

interface Ask {
  readonly session: string
  /** It was put on the client's GET stream. */
  readonly onStream: boolean
  /** Answers with the client's whole JSON-RPC response as text. */
  readonly resolve: (response: string) => void
  readonly reject: (error: PublicError) => void
  readonly timer: NodeJS.Timeout
  readonly lease: Lease | undefined
}

interface AskOptions {
  readonly timeoutMs: number
  readonly onStream: boolean
  /** Takes what the question costs; throws where that is too much. */
  hold?(): Lease
}

/** A backend that asks without end is told so. */
const MOST_OF_SESSION = 32
const MOST = 10_000
const MOST_NAMES = 8

const ID = /^"portico-([\w-]{1,32})-(\d+)"$/

/** Questions of this replica to clients that wait for an answer, which may come to any replica. */
export class Asks {
  /** Names that this replica has had, the present one last. */
  #names: readonly string[]
  readonly #open = new Map<string, Ask>()
  /** Open questions by session, where there are any. */
  readonly #counts = new Map<string, number>()
  #count = 0

  constructor(replica: string) {
    this.#names = [replica]
  }

  /** This replica is called otherwise from now on. What it has asked by its old names is still answered. */
  rename(replica: string): void {
    this.#names = [...this.#names.filter((name) => name !== replica), replica].slice(-MOST_NAMES)
  }

  /** Whether a replica of this name is this one. */
  isOwn(replica: string): boolean {
    return this.#names.includes(replica)
  }

  /** Opens a question; its `id` is JSON text. Throws `client_unreachable` where too many are open. */
  open(
    session: string,
    { timeoutMs, onStream, hold }: AskOptions,
  ): { readonly id: string; readonly answer: Promise<string> } {
    const open = this.#counts.get(session) ?? 0
    if (open >= MOST_OF_SESSION || this.#open.size >= MOST)
      throw new PublicError('client_unreachable', { message: 'Too much is asked at once.' })
    const lease = hold?.()
    this.#counts.set(session, open + 1)
    const id = `"portico-${this.#names.at(-1)}-${++this.#count}"`
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const timer = setTimeout(() => this.fail(id, session, new PublicError('client_timeout')), timeoutMs)
    timer.unref()
    this.#open.set(id, { session, onStream, resolve, reject, timer, lease })
    return { id, answer: promise }
  }

  /** Hands an answer to its question. Only the client that was asked can answer. */
  settle(id: string, session: string, response: string): void {
    this.#take(id, session)?.resolve(response)
  }

  fail(id: string, session: string, error: PublicError): void {
    this.#take(id, session)?.reject(error)
  }

  /** Ends all questions to a session, or those that `which` picks. */
  failAll(session: string, error: PublicError, which: (ask: Ask) => boolean = () => true): void {
    for (const [id, ask] of this.#open) if (ask.session === session && which(ask)) this.fail(id, session, error)
  }

  get count(): number {
    return this.#open.size
  }

  #take(id: string, session: string): Ask | undefined {
    const ask = this.#open.get(id)
    if (ask?.session !== session) return undefined
    clearTimeout(ask.timer)
    ask.lease?.release()
    this.#open.delete(id)
    const left = (this.#counts.get(session) ?? 1) - 1
    if (left === 0) this.#counts.delete(session)
    else this.#counts.set(session, left)
    return ask
  }
}

/** The replica whose question has this id (JSON text); undefined where no replica of ours has given it. */
export const askerOf = (id: string): string | undefined => ID.exec(id)?.[1]
