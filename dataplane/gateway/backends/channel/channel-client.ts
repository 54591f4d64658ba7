import { editObject, memberText } from '../../mcp/json.ts'
import { LEVELS, levelOf } from '../../mcp/log-levels.ts'
import type { BackendFailure } from '../connection/failure.ts'
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

/** What one of the clients that share a server has subscribed to. */
export interface ClientSubscriptions {
  /** URIs of the resources that it has subscribed to. */
  readonly subscribed: Set<string>
  /** The lowest level of log messages that it wants. */
  level: string | undefined
}

const MOST_SUBSCRIBED = 256

interface SubscriptionRequest {
  readonly text: string
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
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

/** Whether a request subscribes to one resource more than a client may. */
export const exceedsSubscriptions = (
  { subscribed }: ClientSubscriptions,
  method: string,
  { uri }: Readonly<Record<string, unknown>>,
): boolean =>
  method === 'resources/subscribe' &&
  subscribed.size >= MOST_SUBSCRIBED &&
  !(typeof uri === 'string' && subscribed.has(uri))

/**
 * Notes what a request changes of its client's subscriptions, and gives the request to forward to the server, which has
 * one subscription and one log level for all clients; undefined where nothing need be forwarded. Other requests are given
 * back as they are.
 */
export function applySubscription(
  subscriptions: ClientSubscriptions,
  others: readonly ClientSubscriptions[],
  { text, method, params }: SubscriptionRequest,
): string | undefined {
  const { uri, level } = params
  if (method === 'resources/subscribe' && typeof uri === 'string') subscriptions.subscribed.add(uri)
  if (method === 'resources/unsubscribe' && typeof uri === 'string') {
    subscriptions.subscribed.delete(uri)
    if (others.some(({ subscribed }) => subscribed.has(uri))) return undefined
  }
  if (method === 'logging/setLevel' && typeof level === 'string' && LEVELS.includes(level)) {
    subscriptions.level = level
    const lowest = Math.min(...[subscriptions, ...others].map((one) => levelOf(one.level)).filter((at) => at !== -1))
    const edited = editObject(memberText(text, 'params') as string, { level: JSON.stringify(LEVELS[lowest]) })
    return editObject(text, { params: edited })
  }
  return text
}

/** Whether a client wants a log message of this level; one that has set no level wants all. */
export const wantsLogLevel = (subscriptions: ClientSubscriptions | undefined, level: unknown): boolean =>
  levelOf(level) >= levelOf(subscriptions?.level)
