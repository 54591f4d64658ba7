import { isObject } from '../../../../crds/settings/json.ts'
import type { Caller } from '../../../identity/caller.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Backend } from '../../backends/backend/backend.ts'
import { type ResourceWatch, readUpdatedUri, untilActive } from '../../backends/session/resource-watch.ts'
import type { ChangedList, Listening } from '../../core/list-changes.ts'
import { findResource, type ResourceAt } from '../../core/view.ts'
import { parseBytes } from '../../mcp/json.ts'
import { notificationText, requestText } from '../../mcp/rpc-text.ts'
import { OK } from '../../request/exchange.ts'
import type { TokenHolder } from '../../request/token-watch.ts'
import { mayStillRead } from '../catalog/caller-catalog.ts'
import { afterFirstLists } from '../catalog/prompts-and-resources.ts'
import type { EndpointRequest } from '../incoming/endpoint-exchange.ts'

const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId'
/** The most bytes that a client may leave unread. Beyond it the stream is ended. */
const MOST_UNREAD = 256 * 1024
const MOST_URIS = 256
/** The most characters of all URIs of a subscription. */
const MOST_URI_LENGTH = 64 * 1024

/** Serves `subscriptions/listen`: a stream of the changes that the client has named, until one side ends it. */
export function subscribe(request: EndpointRequest): void {
  const filter = request.message.params?.['notifications']
  if (!isObject(filter)) throw new PublicError('invalid_params', { message: 'params.notifications must be an object.' })
  if (request.gateway.closing.aborted) throw new PublicError('unavailable', { headers: { 'retry-after': '1' } })
  afterFirstLists(request, () => new Listener(request, filter).start())
}

/** The memory of an idle stream. */
const LISTENER_BYTES = 16 * 1024

const measureUris = (uris: readonly string[]): number => uris.reduce((sum, uri) => sum + uri.length, 0)

function checkUris(uris: readonly string[]): readonly string[] {
  if (measureUris(uris) > MOST_URI_LENGTH)
    throw new PublicError('too_large', { message: `The URIs have more than ${MOST_URI_LENGTH} characters together.` })
  return uris
}

/** The stream of one client's subscription. */
class Listener implements Listening, TokenHolder {
  readonly context: EndpointRequest
  readonly #lists: ReadonlySet<ChangedList>
  readonly #uris: readonly string[]
  readonly #meta: object
  #watches: readonly ResourceWatch[] = []
  #watchedAt: ReadonlySet<Backend | undefined> = new Set()
  checkedAt = performance.now()
  /** The notifications to send after the acknowledgement, without duplicates; undefined after it was sent. */
  #early: Set<string> | undefined = new Set()

  constructor(request: EndpointRequest, filter: Record<string, unknown>) {
    this.context = request
    const lists: ChangedList[] = ['tools', 'prompts', 'resources']
    const { capabilities } = request.view.promptsAndResources
    this.#lists = new Set(lists.filter((list) => filter[`${list}ListChanged`] === true && list in capabilities))
    const { resourceSubscriptions } = filter
    const uris = Array.isArray(resourceSubscriptions) ? resourceSubscriptions.slice(0, MOST_URIS) : []
    const named = checkUris(uris.filter((uri): uri is string => typeof uri === 'string'))
    // A resource that the caller may not read is left out, as if it did not exist.
    this.#uris = 'resources' in capabilities ? named.filter((uri) => mayStillRead(request, uri)) : []
    this.#meta = { [SUBSCRIPTION_KEY]: JSON.parse(request.message.id as string) }
    // The stream may last for days, so the memory of the request itself is released.
    request.forgetMessage()
    request.hold(LISTENER_BYTES + 4 * measureUris(this.#uris))
  }

  get caller(): Caller {
    return this.context.caller
  }

  start(): void {
    const { gateway } = this.context
    gateway.listeners.add(this)
    gateway.tokens.add(this)
    this.context.onGone = this
    const { view } = this.context
    const places = this.#uris.flatMap((uri) => findResource(view, uri) ?? [])
    this.#watchedAt = new Set(places.map(({ backend }) => backend))
    this.#watches = watchResources(places, (own, { name }) => {
      const uri = view.promptsAndResources.names?.get(name)?.shown(own) ?? own
      // The policies or the approved definitions may have changed since.
      if (mayStillRead(this.context, uri) && findResource(view, uri) !== undefined)
        this.#notify('notifications/resources/updated', { uri })
    })
    if (this.#watches.length === 0) {
      this.#acknowledge()
      return
    }
    // Every change after the acknowledgement must be reported, so backends must know the subscription first.
    untilActive(this.#watches)
      .then(() => this.#acknowledge())
      .catch((error) => gateway.faulted(error, 'a subscription is not acknowledged'))
  }

  #acknowledge(): void {
    const early = this.#early
    if (early === undefined) return
    this.#early = undefined
    this.#send(this.#text('notifications/subscriptions/acknowledged', { notifications: this.#honoured() }))
    for (const text of early) this.#send(text)
  }

  #honoured(): object {
    return {
      ...Object.fromEntries([...this.#lists].map((list) => [`${list}ListChanged`, true])),
      ...(this.#uris.length === 0 ? {} : { resourceSubscriptions: this.#uris }),
    }
  }

  get binding(): string {
    return this.context.binding
  }

  changed(list: ChangedList): void {
    if (this.#lists.has(list)) this.#notify(`notifications/${list}/list_changed`, {})
  }

  watches(backend: Backend): boolean {
    return this.#watchedAt.has(backend)
  }

  heartbeat(): void {
    if (this.#early === undefined) this.context.reply.heartbeat()
  }

  #notify(method: string, params: object): void {
    const text = this.#text(method, params)
    if (this.#early === undefined) this.#send(text)
    else this.#early.add(text)
  }

  #text(method: string, params: object): string {
    return notificationText(method, { ...params, _meta: this.#meta })
  }

  #send(text: string): void {
    const { reply, res } = this.context
    if (res.writableLength > MOST_UNREAD) this.end()
    else reply.message(text)
  }

  /** Ends the stream. A graceful end is a result. */
  end(): void {
    const { reply, message } = this.context
    this.#close()
    const result = JSON.stringify({ resultType: 'complete', _meta: this.#meta })
    reply.json(200, `{"jsonrpc":"2.0","id":${message.id},"result":${result}}`)
  }

  tokenEnded(): void {
    this.end()
  }

  gone(): void {
    this.#close()
  }

  #close(): void {
    this.context.gateway.listeners.delete(this)
    this.context.gateway.tokens.delete(this)
    this.#early = undefined
    for (const watch of this.#watches) watch.stop()
    this.#watches = []
    this.context.ended(OK)
  }
}

/** Watches resources of any backends for a modern client. `onUpdate` gets the backend's own URI. */
function watchResources(
  places: readonly ResourceAt[],
  onUpdate: (uri: string, backend: Backend) => void,
): readonly ResourceWatch[] {
  return [...Map.groupBy(places, ({ backend }) => backend)].map(([backend, found]) => {
    const uris = found.map(({ own }) => own)
    const tell = (uri: string) => onUpdate(uri, backend)
    return backend.era?.era === 'legacy' ? watchLegacy(backend, uris, tell) : backend.watched.add(uris, tell)
  })
}

/** Watches resources at a legacy backend, in a separate session. */
function watchLegacy(backend: Backend, uris: readonly string[], onUpdate: (uri: string) => void): ResourceWatch {
  const session = backend.newSession()
  const begin = async () => {
    await backend.caller?.needed()
    await session.open()
    session.inbox.subscribe((bytes) => {
      const uri = readUpdatedUri(parseBytes(bytes))
      if (uri !== undefined) onUpdate(uri)
    })
    await session.inbox.subscribing
    await Promise.allSettled(
      uris.map((uri) => session.post(requestText(session.ownId(), 'resources/subscribe', { uri }))),
    )
    // The session that replaces a lost one has no subscriptions.
    session.onOpened = () => {
      for (const uri of uris) session.resubscribe(uri)
    }
  }
  const active = begin().catch(() => {
    // These resources get no updates without a session. The client's own requests report the backend's error.
  })
  return { active, stop: () => backend.closeSession(session) }
}
