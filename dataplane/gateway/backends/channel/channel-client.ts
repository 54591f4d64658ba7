import type { BackendFailure } from '../connection/failure.ts'
import type { ClientSubscriptions } from './client-subscriptions.ts'
import type { Exchange } from './exchange.ts'

/** One of the clients that share a conversation with a server. */
export interface ChannelClient extends ClientSubscriptions {
  readonly id: string
  /** What it declared at `initialize`: which requests of the server it takes. */
  readonly capabilities: Readonly<Record<string, unknown>>
  /** Its GET stream, where it has one open. */
  listening: Exchange | undefined
}

/** A request that the server has not answered yet. */
export interface PendingRequest {
  /** Undefined for the gateway's own requests. */
  readonly client: ChannelClient | undefined
  readonly exchange: Exchange | undefined
  /** The id and progress token that the client chose, as JSON text. */
  readonly id: string
  readonly token: string | undefined
  /** Whether it is a client's call: an error then names the capability that the client would have had to declare. */
  readonly isCall: boolean
  answered(text: string): void
  failed(failure: BackendFailure): void
}

/** The clients of a conversation, and the requests that wait for an answer, by the id that each has on the channel. */
export interface Participants {
  readonly clients: ReadonlySet<ChannelClient>
  readonly pending: ReadonlyMap<number, PendingRequest>
}

/** The client that an unsolicited message is for: the only one that waits for an answer, or the only one there is. */
export function addressee({
  clients,
  pending,
}: Participants): Partial<Pick<PendingRequest, 'client' | 'exchange' | 'isCall'>> | undefined {
  const [first, second] = pending.values()
  if (first !== undefined && second === undefined) return first
  const [client, other] = clients
  if (client === undefined || other !== undefined) return undefined
  return { client, exchange: client.listening ?? first?.exchange, isCall: false }
}
