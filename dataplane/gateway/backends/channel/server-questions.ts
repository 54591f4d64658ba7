import { concerned, type Party, type Present } from './party.ts'

/** Questions that are open at a time; of more the oldest is refused: nobody answers some for as long as a client is there. */
const MOST_OPEN = 256

/** Capability of a client that a server's request needs. */
const needed: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'roots/list': 'roots',
  'sampling/createMessage': 'sampling',
}

/**
 * What a server asks. Only who can't be another is asked, and only the same one's answer goes back: an answer of
 * somebody else's user would be a leak.
 */
export class ServerQuestions {
  readonly #present: Present
  /** Sends a message to the server, if it is still there. */
  readonly #tell: (text: string) => void
  /** Whom the server asked, by the id of its request. */
  readonly #asked = new Map<string, Party>()

  constructor(present: Present, tell: (text: string) => void) {
    this.#present = present
    this.#tell = tell
  }

  /** Passes a request of the server on, or refuses it. `id` is JSON text. */
  ask(method: string, id: string, text: string): void {
    if (method === 'ping') {
      this.#tell(`{"jsonrpc":"2.0","id":${id},"result":{}}`)
      return
    }
    const capability = Object.hasOwn(needed, method) ? needed[method] : undefined
    const { party, exchange, isCall } = concerned(this.#present) ?? {}
    const isKnown = capability !== undefined && party !== undefined && exchange !== undefined
    if (!isKnown || !(isCall || party.capabilities[capability] !== undefined)) {
      this.refuse(id, 'No client can be asked this now.')
      return
    }
    this.#asked.set(id, party)
    const [oldest] = this.#asked.keys()
    if (this.#asked.size > MOST_OPEN) this.refuse(oldest as string, 'Too much is asked at once.')
    exchange.event(text)
  }

  refuse(id: string, message: string): void {
    this.#asked.delete(id)
    this.#tell(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":${JSON.stringify(message)}}}`)
  }

  /** Takes a party's answer; whether it was that party that was asked. */
  settle(party: Party, id: string): boolean {
    return this.#asked.get(id) === party && this.#asked.delete(id)
  }

  /** Tells the server that who was asked is gone. */
  forget(party: Party): void {
    for (const [id, asked] of this.#asked) if (asked === party) this.refuse(id, 'The client has gone.')
  }
}
