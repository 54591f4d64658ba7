import { isObject } from '../../../../crds/settings/json.ts'
import { isLate } from '../../limits/is-late.ts'
import { parseBytes } from '../../mcp/json.ts'
import { FIRST_OWN_ID, requestText } from '../../mcp/rpc-text.ts'
import { isPassing } from '../connection/failure.ts'
import { openStream } from '../connection/http.ts'
import { MessageStream } from '../connection/message-stream.ts'
import { ownMeta } from './era.ts'
import { type Implementation, StreamCredential, type StreamPeer } from './session-peer.ts'

export interface ResourceWatch {
  /**
   * Resolves when the backend has answered all subscriptions. Never rejects; while the backend is unreachable it may
   * stay pending.
   */
  readonly active: Promise<unknown>
  /** The `SharedWatch` that it is part of, if any. */
  readonly by?: object
  stop(): void
}

/** The longest time that a client waits until its subscriptions are active. */
const ACTIVE_MS = 2_000

/** Waits until the watches are active, so that every later change is reported. Never rejects. */
export async function untilActive(watches: readonly ResourceWatch[]): Promise<void> {
  await isLate(Promise.all(watches.map(({ active }) => active)), ACTIVE_MS)
}

/** Returns the URI of the changed resource that a message reports; undefined for other messages. */
export function readUpdatedUri(message: unknown): string | undefined {
  if (!isObject(message) || message['method'] !== 'notifications/resources/updated') return undefined
  const { params } = message
  return isObject(params) && typeof params['uri'] === 'string' ? params['uri'] : undefined
}

/** Tells whether a returned id is this number, even as text. */
const isSameId = (id: unknown, own: number): boolean => id === own || id === String(own)

interface WatchedBackend extends StreamPeer {
  readonly client: Implementation
  /** Returns the headers of a modern request as a new flat list. */
  modernHeaders(method: string): string[]
}

const RETRY_MS = 2_000
/** The time for which new watches are collected into one request. */
const GATHER_MS = 10
/** The time after which the first message of a stream is no longer a refusal. */
const SETTLE_MS = 1_000
/** The time for which a refused URI is left out of the shared subscription. */
const REFUSED_MS = 60_000
/** The most requests in a row that search for refused URIs. URIs that are not decided by then are left out. */
const MOST_TRIES = 40

const ID = FIRST_OWN_ID

type UpdateListener = (uri: string) => void

interface Subscription {
  readonly stream: MessageStream
  readonly uris: ReadonlySet<string>
  /** The URIs that the previous stream did not have. */
  readonly added: readonly string[]
  /** True if the backend has answered with an error on this stream. */
  isRefused: boolean
}

/**
 * Watches resources at one modern backend for all clients on one stream, because each stream holds a connection. A
 * subscription can't be changed. To add a URI, a new subscription is opened, and the old one ends when the new one has
 * begun. If the backend refuses the new one, the old one stays, and bisection finds the refused URIs. Only their
 * watchers get no updates.
 */
export class SharedWatch {
  readonly #backend: WatchedBackend
  readonly #credential: StreamCredential
  readonly #watched = new Map<string, Set<UpdateListener>>()
  /** The subscription whose notifications are used. */
  #live: Subscription | undefined
  /** The previous subscription, kept until the live one has lasted for a while. */
  #before: Subscription | undefined
  /** The subscription that has been requested and has not begun. */
  #next: Subscription | undefined
  /** Groups of URIs that are not added yet. */
  #groups: (readonly string[])[] = []
  #tries = 0
  /** The refused URIs, each with the time until which it is left out (`performance.now()`). */
  readonly #refused = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  #settling: NodeJS.Timeout | undefined
  #isClosed = false
  /** Watches whose `active` is not resolved yet. */
  readonly #waiting = new Map<UpdateListener, { readonly uris: readonly string[]; readonly resolve: () => void }>()

  constructor(backend: WatchedBackend) {
    this.#backend = backend
    this.#credential = new StreamCredential(backend)
  }

  add(uris: readonly string[], onUpdate: UpdateListener): ResourceWatch {
    // A separate listener for each watch, because a function may be added twice and each watch is stopped separately.
    const listener: UpdateListener = (uri) => onUpdate(uri)
    for (const uri of uris) {
      const watchers = this.#watched.get(uri) ?? new Set()
      this.#watched.set(uri, watchers.add(listener))
    }
    if (this.#missing.length > 0) this.#openIn(GATHER_MS)
    const { promise: active, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(listener, { uris, resolve })
    this.#resolveActive()
    return { active, by: this, stop: () => this.#remove(uris, listener) }
  }

  /** Resolves the watches whose URIs are all subscribed or refused. */
  #resolveActive(): void {
    if (this.#settling !== undefined) return
    const missing = new Set(this.#missing)
    for (const [listener, { uris, resolve }] of this.#waiting) {
      if (uris.some((uri) => missing.has(uri))) continue
      this.#waiting.delete(listener)
      resolve()
    }
  }

  #remove(uris: readonly string[], listener: UpdateListener): void {
    this.#waiting.get(listener)?.resolve()
    this.#waiting.delete(listener)
    for (const uri of uris) {
      const watchers = this.#watched.get(uri)
      watchers?.delete(listener)
      if (watchers?.size !== 0) continue
      this.#watched.delete(uri)
      this.#refused.delete(uri)
    }
    // A URI that is no longer watched stays subscribed until the next stream, which is cheaper than a new stream.
    if (this.#watched.size === 0) this.#stop()
  }

  /** The watched URIs that are neither subscribed nor refused. */
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
    // A subscription in progress comes first. `#tryNext` checks again after it.
    if (this.#isClosed || this.#next !== undefined || this.#settling !== undefined) return
    this.#tries = 0
    this.#groups = [this.#missing]
    this.#tryNext()
  }

  /** Subscribes to the current URIs and the next group or, if there is none, to URIs that were added meanwhile. */
  #tryNext(): void {
    const group = this.#groups.shift()?.filter((uri) => this.#watched.has(uri))
    if (group === undefined) {
      if (this.#missing.length > 0) this.#openIn(GATHER_MS)
    } else if (group.length === 0) this.#tryNext()
    else if (++this.#tries > MOST_TRIES) this.#leaveOut(group)
    else this.#subscribe(group)
  }

  #leaveOut(group: readonly string[]): void {
    for (const uri of group) if (this.#watched.has(uri)) this.#refused.set(uri, performance.now() + REFUSED_MS)
    this.#backend.log.debug({ resources: group.length }, 'the backend refuses subscriptions to resources')
    this.#resolveActive()
    this.#tryNext()
  }

  #subscribe(added: readonly string[]): void {
    const { log, share } = this.#backend
    const kept = [...(this.#live?.uris ?? [])].filter((uri) => this.#watched.has(uri))
    const uris = [...kept, ...added]
    const stream = new MessageStream({
      log,
      share,
      onMessage: (bytes) => this.#take(subscription, bytes),
      onBegin: () => this.#begun(subscription),
      onEnd: (refused) => this.#ended(subscription, refused),
    })
    const subscription: Subscription = { stream, uris: new Set(uris), added, isRefused: false }
    this.#next = subscription
    this.#credential.open(
      () => this.#request(subscription),
      () => this.#ended(subscription, 0),
    )
  }

  #request(subscription: Subscription): void {
    // While the credential was obtained, the watch may have been stopped.
    if (subscription !== this.#next) return
    const { path, client } = this.#backend
    const notifications = { resourceSubscriptions: [...subscription.uris] }
    const body = requestText(ID, 'subscriptions/listen', { notifications, _meta: ownMeta(client) })
    const headers = this.#backend.modernHeaders('subscriptions/listen')
    openStream(this.#backend, { path, method: 'POST', headers, body }, subscription.stream)
  }

  /** Makes a subscription the live one. The previous one ends when this one has lasted for a while. */
  #begun(subscription: Subscription): void {
    this.#credential.begun()
    this.#before = this.#live
    this.#live = subscription
    this.#next = undefined
    this.#settling = setTimeout(() => this.#settle(), SETTLE_MS)
    this.#settling.unref()
  }

  #settle(): void {
    if (this.#settling === undefined) return
    this.#endBefore()
    this.#resolveActive()
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
      const renewed = this.#credential.renewed(refused)
      if (renewed !== undefined) renewed.then(() => this.#openIn(0)).catch(() => this.#openIn(RETRY_MS))
      else if (isForGood) this.#narrow(subscription.added)
      else this.#openIn(RETRY_MS)
    } else if (subscription === this.#live) {
      // A subscription that ends right after its beginning does not replace the previous one.
      this.#live = this.#before
      this.#before = undefined
      this.#endBefore()
      if (isForGood) this.#narrow(subscription.added)
      else if (this.#watched.size > 0) this.#openIn(RETRY_MS)
    } else if (subscription === this.#before) this.#before = undefined
  }

  /** Splits a refused group into halves to try. A single refused URI is left out. */
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
    if (isObject(message) && isSameId(message['id'], ID) && message['error'] !== undefined) {
      subscription.isRefused = true
      subscription.stream.stop()
      this.#ended(subscription, undefined)
      return
    }
    if (isObject(message) && message['method'] === 'notifications/subscriptions/acknowledged') this.#settle()
    const uri = readUpdatedUri(message)
    if (uri !== undefined) for (const listener of this.#watched.get(uri) ?? []) listener(uri)
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

  close(): void {
    this.#isClosed = true
    this.#watched.clear()
    this.#stop()
  }
}
