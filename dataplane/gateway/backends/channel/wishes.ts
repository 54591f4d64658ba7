import { editObject, memberText } from '../../mcp/json.ts'
import { LEVELS, levelOf } from '../../mcp/log-levels.ts'

/** What one of those who share a server has asked of it for itself. */
export interface Wishes {
  /** Resources of whose changes it wants to hear. */
  readonly subscribed: Set<string>
  /** From which level on it wants log messages. */
  level: string | undefined
}

const MOST_SUBSCRIBED = 256

interface Wish {
  readonly text: string
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
}

/** Whether a request subscribes to one resource more than its sender may. */
export const subscribesTooMuch = (
  { subscribed }: Wishes,
  method: string,
  { uri }: Readonly<Record<string, unknown>>,
): boolean =>
  method === 'resources/subscribe' &&
  subscribed.size >= MOST_SUBSCRIBED &&
  !(typeof uri === 'string' && subscribed.has(uri))

/**
 * Notes what a request changes of its sender's wishes, and gives the request that the server is to get, so that it does
 * what all together want; undefined where it need not be told. Other requests are given back as they are.
 */
export function noteWish(
  wishes: Wishes,
  others: readonly Wishes[],
  { text, method, params }: Wish,
): string | undefined {
  const { uri, level } = params
  if (method === 'resources/subscribe' && typeof uri === 'string') wishes.subscribed.add(uri)
  if (method === 'resources/unsubscribe' && typeof uri === 'string') {
    wishes.subscribed.delete(uri)
    if (others.some(({ subscribed }) => subscribed.has(uri))) return undefined
  }
  if (method === 'logging/setLevel' && typeof level === 'string' && LEVELS.includes(level)) {
    wishes.level = level
    const lowest = Math.min(...[wishes, ...others].map((one) => levelOf(one.level)).filter((at) => at !== -1))
    const edited = editObject(memberText(text, 'params') as string, { level: JSON.stringify(LEVELS[lowest]) })
    return editObject(text, { params: edited })
  }
  return text
}

/** Whether somebody wants a log message of this level; who never said anything wants all. */
export const wantsLevel = (wishes: Wishes | undefined, level: unknown): boolean =>
  levelOf(level) >= levelOf(wishes?.level)
