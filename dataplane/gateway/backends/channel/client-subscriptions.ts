import { editObject, memberText } from '../../mcp/json.ts'
import { LEVELS, levelOf } from '../../mcp/log-levels.ts'

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
