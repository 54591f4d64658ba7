import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'
import { type ApiServer, isGone, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { apiVersionOf, METADATA_ONLY, type Resource } from '../../cluster/kubernetes/resource.ts'
import { watch } from '../../cluster/kubernetes/watch.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { pause } from '../queue/pause.ts'

/** Where a reflector keeps what it sees. Called in order, one call at a time. */
export interface ReflectedStore {
  put(object: KubernetesObject): void
  remove(object: KubernetesObject): void
  /** Everything there is at a version, after a list; what is not in it is gone. */
  replace(objects: readonly KubernetesObject[], version: string): void
}

export interface ReflectorMetrics {
  lists: number
  watches: number
  failures: number
  events: number
  /** Milliseconds since 1970 of the last list, event, bookmark or fresh watch. */
  lastSeen: number
}

export interface ReflectorOptions {
  readonly api: ApiServer
  readonly resource: Resource
  readonly namespace?: string
  readonly labelSelector?: string
  /** Ask for metadata alone; `put` gets objects without spec, data and status. */
  readonly metadataOnly?: boolean
  /** The API may well have no such resource: that is no failure. */
  readonly isOptional?: boolean
  /** What of an object is kept, applied to each as it comes. */
  readonly keep?: (object: KubernetesObject) => KubernetesObject
  readonly store: ReflectedStore
  /** Whose turn it is to read a page: shared by all that list at the same time. */
  readonly turns: Turns
  readonly log: Logger
  readonly pageSize?: number
  readonly watchSeconds?: number
  /** Milliseconds without a byte; bookmarks come about once a minute. */
  readonly idleLimit?: number
  /** Milliseconds after which the whole list is read again, whatever the watch has said. */
  readonly relistAfter?: number
}

/** Objects in a page of a list: whole, as text and as objects, they are in memory at once. */
const PAGE_SIZE = 100

/** Milliseconds for which the API must say that it doesn't know a resource before what was known of it is dropped. */
const ABSENT_AFTER = 10_000

/**
 * Keeps a store equal to a collection of the API: list in pages, watch from there, go on where a watch ended, list
 * again when the server has forgotten our version. Never ends by itself and never gives up: every failure is waited out
 * with backoff and jitter. A resource that the API doesn't have (a CRD that isn't installed) has no objects; it is asked
 * for again and again.
 */
export class Reflector {
  readonly metrics: ReflectorMetrics = { lists: 0, watches: 0, failures: 0, events: 0, lastSeen: 0 }
  readonly #options: ReflectorOptions
  readonly #stopping = new AbortController()
  readonly #synced = Promise.withResolvers<void>()
  #hasSynced = false
  #running: Promise<void> | undefined
  #resourceVersion: string | undefined
  #listedAt = 0
  #lastFailure = ''
  /** Since when the API says that there is no such resource, in milliseconds since 1970. */
  #absentSince: number | undefined

  constructor(options: ReflectorOptions) {
    this.#options = options
  }

  get name(): string {
    const { resource, namespace } = this.#options
    return `${resource.plural}.${apiVersionOf(resource)}${namespace ? ` in ${namespace}` : ''}`
  }

  /** Settles once the first list is in the store; never rejects. */
  get synced(): Promise<void> {
    return this.#synced.promise
  }

  get hasSynced(): boolean {
    return this.#hasSynced
  }

  /** Why the last attempt failed; empty while all is well. */
  get lastFailure(): string {
    return this.#lastFailure
  }

  /** Whether the API has no such resource. */
  get isAbsent(): boolean {
    return this.#absentSince !== undefined
  }

  get isOptional(): boolean {
    return this.#options.isOptional === true
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    let failures = 0
    while (!signal.aborted) failures = await this.#listAndWatch(failures)
  }

  /** Lists if need be, watches until the watch ends or fails, and waits as is due then. Gives the failures in a row. */
  async #listAndWatch(failures: number): Promise<number> {
    const { signal } = this.#stopping
    const before = this.metrics.events
    const started = Date.now()
    try {
      if (this.#resourceVersion === undefined || this.#isStale()) await this.#list()
      await this.#watch()
      this.#lastFailure = ''
      // A server that ends every watch at once must not be asked in a tight loop.
      if (Date.now() - started < 1000 && this.metrics.events === before)
        await delay(200 + Math.random() * 800, undefined, { signal })
      return 0
    } catch (error) {
      if (signal.aborted) return failures
      this.#invalidateVersion(error)
      const hadWorked = this.metrics.events > before || Date.now() - started > 60_000
      const inARow = hadWorked ? 1 : failures + 1
      // The server forgets a list's own version only when it is in trouble.
      if (failures === 0 && isGone(error)) return inARow
      await pause(this.#failed(error, inARow), signal)
      return inARow
    }
  }

  /** The version is of no use any more where the server has forgotten it, or the whole resource. */
  #invalidateVersion(error: unknown): void {
    if (isGone(error)) {
      this.#resourceVersion = undefined
      this.#options.log.info({ watch: this.name }, 'version is too old, listing again')
    }
    if (isNotFound(error)) this.#absent()
  }

  /** Says what a list or watch failed with; gives the time until the next try in milliseconds. */
  #failed(error: unknown, failures: number): number {
    const isExpected = this.isOptional && isNotFound(error)
    if (!isExpected) this.metrics.failures++
    const failure = error instanceof Error ? error.message : String(error)
    // An outage is two dozen watches that fail again and again: each says so when it is news, and /metrics counts.
    const level = isExpected || failure === this.#lastFailure ? 'debug' : 'warn'
    this.#lastFailure = failure
    const wait = backoffDelay(failures - 1, { first: 250, longest: this.isAbsent && !isExpected ? 5_000 : 30_000 })
    const retryAfter = Number((error as { retryAfter?: number }).retryAfter ?? 0) * 1000
    this.#options.log[level]({ watch: this.name, error: failure, failures, waitMs: Math.round(wait) }, 'watch failed')
    return Math.max(wait, retryAfter)
  }

  #isStale(): boolean {
    return Date.now() - this.#listedAt > (this.#options.relistAfter ?? 30 * 60_000)
  }

  async #list(): Promise<void> {
    const { store, turns } = this.#options
    const objects: KubernetesObject[] = []
    let next: string | undefined
    let version: string
    do {
      // The whole page is garbage before the next turn begins.
      const page = await turns.take(() => this.#page(next, objects))
      next = page.continue || undefined
      version = page.resourceVersion
    } while (next)
    this.metrics.lists++
    this.metrics.lastSeen = this.#listedAt = Date.now()
    this.#absentSince = undefined
    store.replace(objects, version)
    this.#resourceVersion = version
    this.#sync()
  }

  /** Reads one page into `objects`, as they are kept. Gives the page's metadata. */
  async #page(next: string | undefined, objects: KubernetesObject[]) {
    const { api, resource, namespace, labelSelector, metadataOnly, pageSize = PAGE_SIZE } = this.#options
    const { items, metadata } = await api.list(resource, namespace, {
      query: { limit: pageSize, continue: next, labelSelector },
      signal: this.#stopping.signal,
      ...(metadataOnly ? { accept: METADATA_ONLY.list } : {}),
    })
    // Items of a list carry neither kind nor apiVersion; an empty list of metadata is null.
    for (const item of items ?? []) objects.push(this.#named(item))
    return metadata
  }

  #sync(): void {
    if (this.#hasSynced) return
    this.#hasSynced = true
    this.#synced.resolve()
  }

  /**
   * The API has no such resource: nobody waits for its first list. What was known of it goes only when that lasts: an
   * API server that has just started may not serve every resource yet.
   */
  #absent(): void {
    this.#absentSince ??= Date.now()
    // A CRD that comes back counts its versions anew.
    this.#resourceVersion = undefined
    if (this.#hasSynced && Date.now() - this.#absentSince < ABSENT_AFTER) return
    this.#options.store.replace([], '')
    this.#sync()
  }

  async #watch(): Promise<void> {
    const { api, resource, namespace, labelSelector, store, metadataOnly } = this.#options
    const seconds = this.#options.watchSeconds ?? 300
    this.metrics.watches++
    const events = watch<KubernetesObject>(api, resource, {
      resourceVersion: this.#resourceVersion as string,
      timeoutSeconds: Math.round(seconds * (1 + Math.random() * 0.2)),
      idleLimit: this.#options.idleLimit ?? 120_000,
      signal: this.#stopping.signal,
      ...(namespace ? { namespace } : {}),
      ...(labelSelector ? { labelSelector } : {}),
      ...(metadataOnly ? { accept: METADATA_ONLY.object } : {}),
    })
    for await (const { type, object } of events) {
      this.metrics.lastSeen = Date.now()
      if (type !== 'BOOKMARK') {
        this.metrics.events++
        const named = this.#named(object)
        if (type === 'DELETED') store.remove(named)
        else store.put(named)
      }
      this.#lastFailure = ''
      // After the store: a crash in between must not skip the event.
      this.#resourceVersion = object.metadata.resourceVersion
    }
  }

  #named(object: KubernetesObject): KubernetesObject {
    const { resource, metadataOnly, keep } = this.#options
    if (metadataOnly || !object.kind) {
      object.kind = resource.kind
      object.apiVersion = apiVersionOf(resource)
    }
    return keep ? keep(object) : object
  }
}

/** Lets some tasks at once through, the others in the order in which they came. */
export class Turns {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Gives what the task gives, and rejects with what it rejects with. */
  async take<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}
