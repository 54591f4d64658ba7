import { LEVELS, rankLevel } from '../../mcp/eras.ts'
import { editObject, memberText } from '../../mcp/json.ts'
import type { BackendFailure } from '../connection/failure.ts'
import type { Exchange } from './exchange.ts'

/** One of the clients that share a conversation with a server. */
export interface ChannelClient extends ClientSubscriptions {
  readonly id: string
  /** The capabilities that it declared at `initialize`. They determine which requests of the server it gets. */
  readonly capabilities: Readonly<Record<string, unknown>>
  /** Its open GET stream, if any. */
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
  /** True for a client's call, whose error names a capability that the client has not declared. */
  readonly isCall: boolean
  answered(text: string): void
  failed(failure: BackendFailure): void
}

/** The clients of a conversation and its pending requests, by their ids on the channel. */
export interface Participants {
  readonly clients: ReadonlySet<ChannelClient>
  readonly pending: ReadonlyMap<number, PendingRequest>
}

export interface ClientSubscriptions {
  readonly subscribed: Set<string>
  /** The lowest level of log messages that it gets. */
  level: string | undefined
}

const MOST_SUBSCRIBED = 256

/** A message, parsed as far as needed, with its original text. */
export interface ParsedMessage {
  readonly text: string
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/** Returns the client that an unsolicited message is for: the only one with a pending request, or the only client. */
export function findAddressee({
  clients,
  pending,
}: Participants): Partial<Pick<PendingRequest, 'client' | 'exchange' | 'isCall'>> | undefined {
  const [first, second] = pending.values()
  if (first !== undefined && second === undefined) return first
  const [client, other] = clients
  if (client === undefined || other !== undefined) return undefined
  return { client, exchange: client.listening ?? first?.exchange, isCall: false }
}

/** Tells whether a request would take the client over its limit of resource subscriptions. */
export const exceedsSubscriptions = (
  { subscribed }: ClientSubscriptions,
  method: string,
  { uri }: Readonly<Record<string, unknown>>,
): boolean =>
  method === 'resources/subscribe' &&
  subscribed.size >= MOST_SUBSCRIBED &&
  !(typeof uri === 'string' && subscribed.has(uri))

/**
 * Records the change that a request makes to its client's subscriptions and returns the request to forward. The server
 * has one subscription and one log level for all clients, so the result is undefined if nothing need be forwarded.
 * Other requests are returned unchanged.
 */
export function applySubscription(
  subscriptions: ClientSubscriptions,
  others: readonly ClientSubscriptions[],
  { text, method, params }: ParsedMessage,
): string | undefined {
  const { uri, level } = params
  if (method === 'resources/subscribe' && typeof uri === 'string') subscriptions.subscribed.add(uri)
  if (method === 'resources/unsubscribe' && typeof uri === 'string') {
    subscriptions.subscribed.delete(uri)
    if (others.some(({ subscribed }) => subscribed.has(uri))) return undefined
  }
  if (method === 'logging/setLevel' && typeof level === 'string' && LEVELS.includes(level)) {
    subscriptions.level = level
    const lowest = Math.min(...[subscriptions, ...others].map((one) => rankLevel(one.level)).filter((at) => at !== -1))
    const edited = editObject(memberText(text, 'params') as string, { level: JSON.stringify(LEVELS[lowest]) })
    return editObject(text, { params: edited })
  }
  return text
}

/** Tells whether a client gets log messages of this level. A client that has set no level gets all. */
export const wantsLogLevel = (subscriptions: ClientSubscriptions | undefined, level: unknown): boolean =>
  rankLevel(level) >= rankLevel(subscriptions?.level)
