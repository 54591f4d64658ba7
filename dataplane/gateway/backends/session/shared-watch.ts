import { isObject } from '../../../../crds/shared/json.ts'
import { parseBytes } from '../../mcp/parse.ts'
import { requestText } from '../../mcp/rpc-text.ts'
import { isPassing } from '../connection/failure.ts'
import { MessageStream } from '../connection/message-stream.ts'
import { ownMeta } from './era.ts'
import { type ResourceWatch, updatedUri } from './resource-updates.ts'
import type { Implementation, StreamPeer } from './session-peer.ts'

/** The backend that is listened to. */
interface WatchedBackend extends StreamPeer {
  readonly client: Implementation
  /** Headers of a modern request, as a flat list of its own. */
  modernHeaders(method: string): string[]
}

const RETRY_MS = 2_000
/** Watches that begin together become one request. */
const GATHER_MS = 10
/** A stream that holds for so long is not refused by its first message any more. */
const SETTLE_MS = 1_000
/** How long a URI that was refused is left out of what others are heard by. */
const REFUSED_MS = 60_000
/** Most requests in a row by which it is found out which URIs are refused; what is not found by then is left out. */
const MOST_TRIES = 40

const ID = 'portico-watch'

type Told = (uri: string) => void

/** A stream, and what it was asked for. */
interface Subscription {
  readonly stream: MessageStream
  readonly uris: ReadonlySet<string>
  /** What of it no stream before had. */
  readonly added: readonly string[]
  /** The backend has answered with an error on the stream. */
  isRefused: boolean
}

/**
 * All that is watched at one modern backend, on one stream for all who watch: each stream holds a connection. A
 * subscription can't be changed: what is added to it makes another one, and the old one ends when that has begun. Where
 * the other one is refused the old one stays, and it is found out by halves which URIs the backend refuses: those cost
 * only who watches them.
 */
export class SharedWatch {
  readonly #backend: WatchedBackend
  readonly #watched = new Map<string, Set<Told>>()
  /** What is heard. */
  #live: Subscription | undefined
  /** What was heard before, until the live one has held for a while. */
  #before: Subscription | undefined
  /** The one that is asked for. */
  #next: Subscription | undefined
  /** Groups of URIs that are still to be added. */
  #groups: (readonly string[])[] = []
  #tries = 0
  /** URIs that the backend refuses, and until when (`performance.now()`) they are left out. */
  readonly #refused = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #settling: NodeJS.Timeout | undefined
  #isClosed = false
  /** Those who wait until their URIs are heard. */
  readonly #waiting = new Map<Told, { readonly uris: readonly string[]; readonly resolve: () => void }>()

  constructor(backend: WatchedBackend) {
    this.#backend = backend
  }

  /** Watches some resources; `onUpdate` is told of each that has changed. */
  add(uris: readonly string[], onUpdate: Told): ResourceWatch {
    // Who watches twice is told twice, and stops each by itself.
    const told: Told = (uri) => onUpdate(uri)
    for (const uri of uris) {
      const watchers = this.#watched.get(uri) ?? new Set()
      this.#watched.set(uri, watchers.add(told))
    }
    if (this.#missing.length > 0) this.#openIn(GATHER_MS)
    const { promise: heard, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(told, { uris, resolve })
    this.#tellHeard()
    return { heard, by: this, stop: () => this.#remove(uris, told) }
  }

  /** Tells those who wait of what is heard, or refused, by now. */
  #tellHeard(): void {
    if (this.#settling !== undefined) return
    const missing = new Set(this.#missing)
    for (const [told, { uris, resolve }] of this.#waiting) {
      if (uris.some((uri) => missing.has(uri))) continue
      this.#waiting.delete(told)
      resolve()
    }
  }

  #remove(uris: readonly string[], told: Told): void {
    this.#waiting.get(told)?.resolve()
    this.#waiting.delete(told)
    for (const uri of uris) {
      const watchers = this.#watched.get(uri)
      watchers?.delete(told)
      if (watchers?.size !== 0) continue
      this.#watched.delete(uri)
      this.#refused.delete(uri)
    }
    // What nobody watches any more is told of until the stream is another one: that costs less than another one.
    if (this.#watched.size === 0) this.#stop()
  }

  /** What is watched and not heard, but for what is refused. */
  get #missing(): string[] {
    const now = performance.now()
    return [...this.#watched.keys()].filter(
      (uri) => this.#live?.uris.has(uri) !== true && (this.#refused.get(uri) ?? 0) <= now,
    )
  }

  #openIn(ms: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#open(), ms)
    this.#timer.unref()
  }

  #open(): void {
    // What is asked for or has just begun comes first; `#tryNext` looks again.
    if (this.#isClosed || this.#next !== undefined || this.#settling !== undefined) return
    this.#tries = 0
    this.#groups = [this.#missing]
    this.#tryNext()
  }

  /** Asks for what is heard already and the next group; without one, for what was added meanwhile. */
  #tryNext(): void {
    const group = this.#groups.shift()?.filter((uri) => this.#watched.has(uri))
    if (group === undefined) {
      if (this.#missing.length > 0) this.#openIn(GATHER_MS)
    } else if (group.length === 0) this.#tryNext()
    else if (++this.#tries > MOST_TRIES) this.#leaveOut(group)
    else this.#ask(group)
  }

  #leaveOut(group: readonly string[]): void {
    for (const uri of group) if (this.#watched.has(uri)) this.#refused.set(uri, performance.now() + REFUSED_MS)
    this.#backend.log.debug({ resources: group.length }, 'the backend refuses to tell of resources')
    this.#tellHeard()
    this.#tryNext()
  }

  #ask(added: readonly string[]): void {
    const { dispatcher, path, client, log, share } = this.#backend
    const heard = [...(this.#live?.uris ?? [])].filter((uri) => this.#watched.has(uri))
    const uris = [...heard, ...added]
    const stream = new MessageStream({
      log,
      share,
      onMessage: (bytes) => this.#take(subscription, bytes),
      onBegin: () => this.#begun(subscription),
      onEnd: (refused) => this.#ended(subscription, refused),
    })
    const subscription: Subscription = { stream, uris: new Set(uris), added, isRefused: false }
    this.#next = subscription
    const params = { notifications: { resourceSubscriptions: uris }, _meta: ownMeta(client) }
    const body = requestText(ID, 'subscriptions/listen', params)
    try {
      const headers = this.#backend.modernHeaders('subscriptions/listen')
      dispatcher.stream({ path, method: 'POST', headers, body }, stream)
    } catch {
      this.#ended(subscription, 0)
    }
  }

  /** It works, as far as can be told: the one before is let go of when it has held for a while. */
  #begun(subscription: Subscription): void {
    this.#before = this.#live
    this.#live = subscription
    this.#next = undefined
    this.#settling = setTimeout(() => this.#settle(), SETTLE_MS)
    this.#settling.unref()
  }

  #settle(): void {
    if (this.#settling === undefined) return
    this.#endBefore()
    this.#tellHeard()
    this.#tryNext()
  }

  #endBefore(): void {
    clearTimeout(this.#settling)
    this.#settling = undefined
    this.#before?.stream.stop()
    this.#before = undefined
  }

  #ended(subscription: Subscription, refused: number | undefined): void {
    const isForGood = subscription.isRefused || (refused !== undefined && !isPassing(refused))
    if (subscription === this.#next) {
      this.#next = undefined
      if (isForGood) this.#narrow(subscription.added)
      else this.#openIn(RETRY_MS)
    } else if (subscription === this.#live) {
      // One that ends as soon as it has begun has replaced nothing.
      this.#live = this.#before
      this.#before = undefined
      this.#endBefore()
      if (isForGood) this.#narrow(subscription.added)
      else if (this.#watched.size > 0) this.#openIn(RETRY_MS)
    } else if (subscription === this.#before) this.#before = undefined
  }

  /** A group was refused: its halves are tried, and one URI alone is left out. */
  #narrow(group: readonly string[]): void {
    if (this.#watched.size === 0) return
    if (group.length <= 1) {
      this.#leaveOut(group)
      return
    }
    const middle = group.length >> 1
    this.#groups.unshift(group.slice(0, middle), group.slice(middle))
    this.#tryNext()
  }

  #take(subscription: Subscription, bytes: Buffer): void {
    if (subscription !== this.#live) return
    const message = parseBytes(bytes)
    if (isObject(message) && message['id'] === ID && message['error'] !== undefined) {
      subscription.isRefused = true
      subscription.stream.stop()
      this.#ended(subscription, undefined)
      return
    }
    if (isObject(message) && message['method'] === 'notifications/subscriptions/acknowledged') this.#settle()
    const uri = updatedUri(message)
    if (uri !== undefined) for (const told of this.#watched.get(uri) ?? []) told(uri)
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#endBefore()
    this.#next?.stream.stop()
    this.#live?.stream.stop()
    this.#next = undefined
    this.#live = undefined
    this.#groups = []
    this.#refused.clear()
  }

  /** Ends it for all. */
  close(): void {
    this.#isClosed = true
    this.#watched.clear()
    this.#stop()
  }
}
