import { addressee, type ChannelClient, type Participants } from './channel-client.ts'

/** Requests that are open at a time; of more the oldest is refused: some are never answered while the client stays. */
const MOST_OPEN = 256

/** Capability of a client that a server's request needs. */
const needed: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'roots/list': 'roots',
  'sampling/createMessage': 'sampling',
}

/**
 * Requests of a server to its clients. A request goes to a client only where it can be meant for no other, and only that
 * client's response goes back: the response of somebody else's user would be a leak.
 */
export class ServerRequests {
  readonly #participants: Participants
  /** Sends a message to the server, if it is still there. */
  readonly #respond: (text: string) => void
  /** The client that each request went to, by the id of the request. */
  readonly #open = new Map<string, ChannelClient>()

  constructor(participants: Participants, respond: (text: string) => void) {
    this.#participants = participants
    this.#respond = respond
  }

  /** Forwards a request of the server to a client, or refuses it. `id` is JSON text. */
  forward(method: string, id: string, text: string): void {
    if (method === 'ping') {
      this.#respond(`{"jsonrpc":"2.0","id":${id},"result":{}}`)
      return
    }
    const capability = Object.hasOwn(needed, method) ? needed[method] : undefined
    const { client, exchange, isCall } = addressee(this.#participants) ?? {}
    const isKnown = capability !== undefined && client !== undefined && exchange !== undefined
    if (!isKnown || !(isCall || client.capabilities[capability] !== undefined)) {
      this.refuse(id, 'No client can be asked this now.')
      return
    }
    this.#open.set(id, client)
    const [oldest] = this.#open.keys()
    if (this.#open.size > MOST_OPEN) this.refuse(oldest as string, 'Too much is asked at once.')
    exchange.event(text)
  }

  refuse(id: string, message: string): void {
    this.#open.delete(id)
    this.#respond(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":${JSON.stringify(message)}}}`)
  }

  /** Closes a request that a client has responded to; false where the request went to another client. */
  settle(client: ChannelClient, id: string): boolean {
    return this.#open.get(id) === client && this.#open.delete(id)
  }

  /** Refuses the requests that are open at a client that has gone. */
  refuseAllOf(client: ChannelClient): void {
    for (const [id, addressed] of this.#open) if (addressed === client) this.refuse(id, 'The client has gone.')
  }
}
