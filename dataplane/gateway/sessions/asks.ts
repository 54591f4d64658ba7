import { PublicError } from '../../server/errors.ts'

interface Ask {
  readonly session: string
  /** It was put on the client's GET stream. */
  readonly onStream: boolean
  /** Answers with the client's whole JSON-RPC response as text. */
  readonly resolve: (response: string) => void
  readonly reject: (error: PublicError) => void
  readonly timer: NodeJS.Timeout
}

const ID = /^"portico-([\w-]{1,32})-(\d+)"$/

/** Questions of this replica to clients that wait for an answer, which may come to any replica. */
export class Asks {
  readonly #replica: string
  readonly #open = new Map<string, Ask>()
  #count = 0

  constructor(replica: string) {
    this.#replica = replica
  }

  /** Opens a question; its `id` is JSON text. */
  open(
    session: string,
    { timeoutMs, onStream }: { readonly timeoutMs: number; readonly onStream: boolean },
  ): { readonly id: string; readonly answer: Promise<string> } {
    const id = `"portico-${this.#replica}-${++this.#count}"`
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const timer = setTimeout(() => this.fail(id, session, new PublicError('client_timeout')), timeoutMs)
    timer.unref()
    this.#open.set(id, { session, onStream, resolve, reject, timer })
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
    this.#open.delete(id)
    return ask
  }
}

/** The replica whose question has this id (JSON text); undefined where no replica of ours has given it. */
export const askerOf = (id: string): string | undefined => ID.exec(id)?.[1]
