import { PublicError } from '../../server/errors.ts'
import { backendOfUri } from '../aggregation/offer-catalog.ts'
import { type ResourceWatch, watchResources } from '../backends/resource-watch.ts'
import { isObject } from '../mcp/message.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import { onceAsked } from './offers.ts'
import { OK, type Turn } from './turn.ts'

export type ChangedList = 'tools' | 'prompts' | 'resources'

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'
/** What a client that does not read may leave unread before its stream is ended. */
const MOST_UNREAD = 256 * 1024
const MOST_URIS = 256

/** Modern clients that listen to changes (`subscriptions/listen`). */
export class Listeners {
  readonly #open = new Set<Listener>()

  add(listener: Listener): void {
    this.#open.add(listener)
  }

  delete(listener: Listener): void {
    this.#open.delete(listener)
  }

  changed(list: ChangedList): void {
    for (const listener of this.#open) listener.changed(list)
  }

  keepAlive(): void {
    for (const listener of this.#open) listener.sign()
  }

  end(): void {
    for (const listener of this.#open) listener.end()
  }
}

/** `subscriptions/listen`: a stream of the changes that the client names, until one side ends it. */
export function subscribe(turn: Turn): void {
  const filter = turn.message.params?.['notifications']
  if (!isObject(filter)) throw new PublicError('invalid_params', { message: 'params.notifications must be an object.' })
  if (turn.gateway.closing.aborted) throw new PublicError('unavailable', { headers: { 'retry-after': '1' } })
  onceAsked(turn, () => new Listener(turn, filter).start())
}

/** One stream of a client that listens. */
class Listener {
  readonly #turn: Turn
  readonly #lists: ReadonlySet<ChangedList>
  readonly #uris: readonly string[]
  readonly #meta: object
  #watches: readonly ResourceWatch[] = []

  constructor(turn: Turn, filter: Record<string, unknown>) {
    this.#turn = turn
    const lists: ChangedList[] = ['tools', 'prompts', 'resources']
    const { capabilities } = turn.gateway.offers
    this.#lists = new Set(lists.filter((list) => filter[`${list}ListChanged`] === true && list in capabilities))
    const uris = filter['resourceSubscriptions']
    this.#uris =
      Array.isArray(uris) && 'resources' in capabilities
        ? uris.filter((uri): uri is string => typeof uri === 'string').slice(0, MOST_URIS)
        : []
    this.#meta = { [SUBSCRIPTION_KEY]: JSON.parse(turn.message.id as string) }
  }

  start(): void {
    const { gateway } = this.#turn
    gateway.listeners.add(this)
    this.#turn.onGone = this
    this.#say('notifications/subscriptions/acknowledged', { notifications: this.#honoured() })
    this.#watches = watchResources(
      this.#uris.map((uri) => [backendOfUri(gateway.offers, uri), uri] as const),
      (uri) => this.#say('notifications/resources/updated', { uri }),
    )
  }

  #honoured(): object {
    return {
      ...Object.fromEntries([...this.#lists].map((list) => [`${list}ListChanged`, true])),
      ...(this.#uris.length === 0 ? {} : { resourceSubscriptions: this.#uris }),
    }
  }

  changed(list: ChangedList): void {
    if (this.#lists.has(list)) this.#say(`notifications/${list}/list_changed`, {})
  }

  sign(): void {
    this.#turn.reply.keepAlive()
  }

  #say(method: string, params: object): void {
    const { reply } = this.#turn
    if (reply.res.writableLength > MOST_UNREAD) this.end()
    else reply.message(notificationText(method, { ...params, _meta: this.#meta }))
  }

  /** Ends it from our side: a graceful end is a result. */
  end(): void {
    const { reply, message } = this.#turn
    this.#close()
    const result = JSON.stringify({ resultType: 'complete', _meta: this.#meta })
    reply.json(200, `{"jsonrpc":"2.0","id":${message.id},"result":${result}}`)
  }

  gone(): void {
    this.#close()
  }

  #close(): void {
    this.#turn.gateway.listeners.delete(this)
    for (const watch of this.#watches) watch.stop()
    this.#watches = []
    this.#turn.ended(OK)
  }
}
