import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { atOnce, type Steps, stepwise } from '../../../crds/settings/stepwise.ts'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'
import { type ApiServer, isGone, isNotFound, watch } from '../../cluster/kubernetes/api-server.ts'
import { formatApiVersion, METADATA_ONLY, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { pause } from '../queue/pause.ts'

export interface ReflectedStore {
  put(object: KubernetesObject): void
  remove(object: KubernetesObject): void
  /**
   * Stores the result of a list at a version. Objects that are not in it are gone. What may take long is returned as
   * steps, which have to be run.
   */
  replace(objects: readonly KubernetesObject[], version: string): Steps<void> | void
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
  /** Requests metadata alone; `put` gets objects without spec, data and status. */
  readonly metadataOnly?: boolean
  /** The API may lack the resource without a failure. */
  readonly isOptional?: boolean
  /** Returns the part of an object that is kept. Called for each object as it arrives. */
  readonly keep?: (object: KubernetesObject) => KubernetesObject
  readonly store: ReflectedStore
  /** Limits the pages that are read at once, across all reflectors that list at the same time. */
  readonly pages: Semaphore
  readonly log: Logger
  readonly pageSize?: number
  readonly watchSeconds?: number
  /** Milliseconds without a byte. Bookmarks come about once a minute. */
  readonly idleLimit?: number
  /** Milliseconds after which the whole list is read again, whatever the watch has delivered. */
  readonly relistAfter?: number
}

/** The number of objects in a page of a list. A whole page is in memory at once, as text and as objects. */
const PAGE_SIZE = 100

/** Milliseconds for which the API must deny that it has a resource before the known objects of it are dropped. */
const ABSENT_AFTER = 10_000

/**
 * Keeps a store equal to a collection of the API: lists in pages, watches from there, and lists again when the server
 * has forgotten our version. It never gives up: after each failure it waits with backoff and jitter. A resource that
 * the API lacks has no objects.
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
  /** The time since which the API denies that it has the resource, in milliseconds since 1970. */
  #absentSince: number | undefined

  constructor(options: ReflectorOptions) {
    this.#options = options
  }

  get name(): string {
    const { resource, namespace } = this.#options
    return `${resource.plural}.${formatApiVersion(resource)}${namespace ? ` in ${namespace}` : ''}`
  }

  get synced(): Promise<void> {
    return this.#synced.promise
  }

  get hasSynced(): boolean {
    return this.#hasSynced
  }

  get lastFailure(): string {
    return this.#lastFailure
  }

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

  /** Lists if needed, watches until that ends or fails, and waits. Returns the failures in a row. */
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
      // The server forgets the version of a fresh list only when it is in trouble.
      if (failures === 0 && isGone(error)) return inARow
      await pause(this.#failed(error, inARow), signal)
      return inARow
    }
  }

  /** Drops our version if the server has forgotten it, or the whole resource. */
  #invalidateVersion(error: unknown): void {
    if (isGone(error)) {
      this.#resourceVersion = undefined
      this.#options.log.info({ watch: this.name }, 'version is too old, listing again')
    }
    if (isNotFound(error)) this.#absent()
  }

  /** Logs the failure of a list or watch. Returns the milliseconds until the next try. */
  #failed(error: unknown, failures: number): number {
    const isExpected = this.isOptional && isNotFound(error)
    if (!isExpected) this.metrics.failures++
    const failure = error instanceof Error ? error.message : String(error)
    // An outage makes two dozen watches fail again and again. Each logs a new failure only, and /metrics counts all.
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
    const { store, pages } = this.#options
    const objects: KubernetesObject[] = []
    let next: string | undefined
    let version: string
    do {
      // The whole page is garbage before the next one is read.
      const page = await pages.run(() => this.#page(next, objects))
      next = page.continue || undefined
      version = page.resourceVersion
    } while (next)
    this.metrics.lists++
    this.metrics.lastSeen = this.#listedAt = Date.now()
    this.#absentSince = undefined
    // A thousand objects that come at once must not delay probes, the lease and admission.
    const steps = store.replace(objects, version)
    if (steps) await stepwise(steps)
    this.#resourceVersion = version
    this.#sync()
  }

  /** Reads one page into `objects`, reduced to what is kept. Returns the page's metadata. */
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
   * Handles a resource that the API lacks. Its objects are dropped only if that lasts: a starting API server may not
   * serve it yet.
   */
  #absent(): void {
    this.#absentSince ??= Date.now()
    // A CRD that is installed again counts its versions again.
    this.#resourceVersion = undefined
    if (this.#hasSynced && Date.now() - this.#absentSince < ABSENT_AFTER) return
    const steps = this.#options.store.replace([], '')
    if (steps) atOnce(steps)
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
      // After the store, so that a crash in between can't skip the event.
      this.#resourceVersion = object.metadata.resourceVersion
    }
  }

  #named(object: KubernetesObject): KubernetesObject {
    const { resource, metadataOnly, keep } = this.#options
    if (metadataOnly || !object.kind) {
      object.kind = resource.kind
      object.apiVersion = formatApiVersion(resource)
    }
    return keep ? keep(object) : object
  }
}

/** Runs a number of tasks at a time. The others wait in the order in which they came. */
export class Semaphore {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
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
