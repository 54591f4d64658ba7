import { setTimeout } from 'node:timers/promises'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import { CallerCredential, type CredentialCache, type Subject } from '../../credentials/index.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { PersonalBackend } from '../backends/backends.ts'
import { type BackendFailure, connectionFailure } from '../backends/connection/failure.ts'
import { ITEM_KINDS } from '../backends/lists/list-kind.ts'
import { type SharedLists, sameTexts } from '../backends/lists/list-memory.ts'
import type { BackendTool } from '../backends/lists/list-page.ts'
import { LOOK_PAUSE_MS } from '../backends/refresh/feeds.ts'
import { listTools, refreshPromptsAndResources } from '../backends/refresh/read-lists.ts'
import { isLate } from '../limits/is-late.ts'
import { buildCatalogs, type KeptCatalogs, missingBackends, type SharedCatalogs, type View } from './view.ts'

/** The shared parts on which all views of callers are built. */
export interface ViewContext {
  readonly config: GatewayConfig
  readonly personal: readonly PersonalBackend[]
  /** The view of the backends that use no caller's credential. */
  readonly shared: View
  /** A number that changes with the lists in `shared`. */
  readonly version: number
  readonly cache: CredentialCache
  readonly lists: SharedLists
  readonly catalogs: SharedCatalogs
  /** Reports that the lists of a view have changed. `before`: its catalogs by the key of the set of shown backends. */
  changed(view: CallerView, before: CatalogsBySet): void
  /** Reports that one of the view's own backends has returned its lists. */
  listed(backend: Backend): void
}

/** The interval between checks whether a caller's lists are stale. */
const LOOK_MS = 100

/**
 * Catalogs by the key of the set of shown backends, which is empty for all; undefined if there was no memory to keep
 * them.
 */
export type CatalogsBySet = ReadonlyMap<string, Catalogs | undefined>

/** A set of backends, with a key that identifies the set. */
interface ShownSet {
  readonly key: string
  readonly names: ReadonlySet<string>
}

interface Own {
  readonly of: PersonalBackend
  readonly backend: Backend
  readonly feed: CallerFeed
}

/**
 * One caller's view if backends use credentials of their callers. Those backends, with everything that belongs to them,
 * are the caller's own; all others are shared.
 */
export class CallerView implements View {
  /** The time of the caller's last request (`performance.now()`). */
  usedAt = Number.NEGATIVE_INFINITY
  /** The caller of the last request, as its token identifies it. */
  caller: Caller | undefined
  readonly binding: string
  /**
   * The handles of its catalogs, by the key of the set of shown backends (empty for all). They exist for the sets that
   * were needed since its lists changed.
   */
  readonly #kept = new Map<string, KeptCatalogs>()
  readonly #context: ViewContext
  #subject: Subject
  #own: readonly Own[] = []
  #backends: readonly Backend[] = []
  #named: ReadonlyMap<string, Backend> = new Map()
  #version = -1
  /** The time of the next check whether lists are stale (`performance.now()`). */
  #lookAt = 0
  /** The version of the shared lists at which all lists had been requested. */
  #listedVersion = -1

  readonly key: string

  /** @param binding the name under which the caller's state is stored */
  constructor(context: ViewContext, binding: string, subject: Subject, key: string) {
    this.#context = context
    this.binding = binding
    this.key = key
    this.#subject = subject
  }

  /** Replaces the caller by one with a token that was just verified. From now on that token is exchanged. */
  isOf(subject: Subject, caller: Caller): void {
    this.#subject = subject
    this.caller = caller
  }

  get kept(): Iterable<KeptCatalogs> {
    return this.#kept.values()
  }

  /** Marks its catalogs as recently used. */
  keep(): void {
    for (const kept of this.#kept.values()) this.#context.catalogs.touch(kept)
  }

  /** Records a request of the caller at `now` (`performance.now()`). */
  arrived(now: number): void {
    this.usedAt = now
    if (now < this.#lookAt && this.#version === this.#context.version) return
    this.#lookAt = now + LOOK_MS
    for (const { feed } of this.#current()) feed.keepFresh(now)
  }

  get backends(): readonly Backend[] {
    this.#current()
    return this.#backends
  }

  get allListed(): boolean {
    const { version, shared } = this.#context
    if (this.#listedVersion === version) return true
    if (!shared.allListed) return false
    for (const { feed } of this.#current()) if (!feed.isTried) return false
    this.#listedVersion = version
    return true
  }

  async firstLists(): Promise<void> {
    await Promise.all([this.#context.shared.firstLists(), ...this.#current().map(({ feed }) => feed.first())])
  }

  get missing(): readonly Backend[] {
    return missingBackends(this.#context.config, this.backends)
  }

  findBackend(name: string): Backend | undefined {
    this.#current()
    return this.#named.get(name)
  }

  get catalog(): Catalog {
    return this.catalogs.catalog
  }

  get promptsAndResources(): PromptResourceCatalog {
    return this.catalogs.promptsAndResources
  }

  get catalogs(): Catalogs {
    return this.#take('', () => buildCatalogs(this.#context.config, this.backends))
  }

  /**
   * Returns the catalogs of a set of its backends. `withheldIn` gets the view of all backends and returns the function
   * that tells which composite tools are withheld.
   */
  catalogsFor(set: ShownSet, withheldIn: (whole: CallerView) => (workflow: Workflow) => boolean): Catalogs {
    return this.#take(set.key, () => {
      const shown = this.backends.filter(({ name }) => set.names.has(name))
      return buildCatalogs(this.#context.config, shown, withheldIn(this))
    })
  }

  /** Returns the catalogs of a set as they were last built; undefined if they were dropped. */
  lastCatalogsFor({ key }: ShownSet): Catalogs | undefined {
    return this.#kept.get(key)?.catalogs
  }

  #take(set: string, build: () => Catalogs): Catalogs {
    const kept = this.#kept.get(set)
    if (kept?.catalogs !== undefined && kept.version === this.#context.version) return kept.catalogs
    const { version, catalogs: shared } = this.#context
    const own = this.#current().map(({ backend }) => backend)
    const taken = shared.take(version, own, build, set)
    if (kept === undefined && this.#kept.size >= MOST_SETS) this.#kept.clear()
    this.#kept.set(set, taken.kept)
    return taken.catalogs
  }

  get own(): readonly Backend[] {
    return this.#own.map(({ backend }) => backend)
  }

  /** Returns the caller's own backends under the current configuration, and drops those that it no longer contains. */
  #current(): readonly Own[] {
    const { version, personal, shared } = this.#context
    if (this.#version !== version) {
      this.#version = version
      const before = new Map(this.#own.map((own) => [own.of, own]))
      this.#own = personal.map((of) => before.get(of) ?? this.#open(of))
      const own = new Map(this.#own.map(({ of, backend }) => [of.shared.name, backend]))
      this.#backends = shared.backends.map((backend) => own.get(backend.name) ?? backend)
      this.#named = new Map(this.#backends.map((backend) => [backend.name, backend]))
    }
    return this.#own
  }

  #open(of: PersonalBackend): Own {
    const credential = new CallerCredential(of.strategy, this.#context.cache, () => this.#subject)
    const backend = of.open(credential)
    return {
      of,
      backend,
      feed: new CallerFeed(backend, {
        onChange: () => this.#changed(backend),
        openTools: of.openTools,
        lists: this.#context.lists,
      }),
    }
  }

  #changed(backend: Backend): void {
    this.#context.listed(backend)
    this.listsChanged()
  }

  /** Makes the view rebuild its lists when they are next needed, and reports that they may differ. */
  listsChanged(): void {
    const before = new Map([...this.#kept].map(([set, { catalogs }]) => [set, catalogs]))
    this.#kept.clear()
    if (before.size > 0) this.#context.changed(this, before)
  }
}

/** The most sets of backends of one caller whose catalogs it holds. */
const MOST_SETS = 4

/** The longest time that a caller's first request waits for the caller's lists. */
const FIRST_MS = 5_000
/** After a failure the lists are not requested again within this time. */
const PAUSE_MS = 2_000

interface CallerFeedOptions {
  onChange(): void
  /**
   * Returns the tools that the backend lists without a credential, for a caller who has not logged in at a provider
   * yet.
   */
  openTools(): Promise<Backend['tools']>
  /** The lists of all callers. Equal ones are shared. */
  readonly lists: SharedLists
}

/**
 * Keeps the lists of a backend as one caller sees them, requested with the caller's credential. They are requested when
 * the caller arrives and again when they are older than the policy's interval. Nothing is requested for an absent
 * caller.
 */
class CallerFeed {
  readonly backend: Backend
  readonly #options: CallerFeedOptions
  #isListed = false
  #running: Promise<void> | undefined
  #again = false
  /** The time from which the lists are stale (`performance.now()`). */
  #staleAt = 0
  /** True once the lists have been requested, with or without success. */
  isTried = false
  /** The start of the last request for the lists (`performance.now()`). */
  #beganAt = Number.NEGATIVE_INFINITY

  constructor(backend: Backend, options: CallerFeedOptions) {
    this.backend = backend
    this.#options = options
    backend.refreshLists = () => this.refresh()
  }

  /** Requests stale lists for a caller who is active at `now` (`performance.now()`). */
  keepFresh(now: number): void {
    if (this.#running === undefined && now >= this.#staleAt) this.#start()
  }

  refresh(): void {
    if (this.#running === undefined) this.#start()
    else this.#again = true
  }

  /** Resolves when the lists have been requested once, or the wait for them has timed out. */
  async first(): Promise<void> {
    if (this.isTried) return
    this.keepFresh(performance.now())
    if (this.#running !== undefined) await isLate(this.#running, FIRST_MS)
  }

  #start(): void {
    this.#running = this.#run()
      .catch((error) => this.backend.log.error({ err: error }, 'the lists of a caller could not be requested'))
      .finally(() => {
        this.#running = undefined
        this.isTried = true
      })
  }

  async #run(): Promise<void> {
    const { backend } = this
    do {
      await this.#pause()
      this.#again = false
      this.#beganAt = performance.now()
      const failure = await this.#list().catch((error) => connectionFailure(error))
      this.#staleAt = performance.now() + (failure === undefined ? backend.health.policy.intervalMs : PAUSE_MS)
      if (failure !== undefined && !backend.closed) await this.#failed(failure)
    } while (this.#again && !backend.closed)
  }

  /** Waits until the lists may be requested again, to limit the rate. */
  async #pause(): Promise<void> {
    const ms = this.#beganAt + LOOK_PAUSE_MS - performance.now()
    if (ms > 0) await setTimeout(ms, undefined, { ref: false })
  }

  async #list(): Promise<undefined> {
    const { backend } = this
    const { caller } = backend
    await caller?.needed()
    const start = performance.now()
    const sent = caller?.credential
    const { tools } = await listTools(backend).catch(async (error) => {
      if (connectionFailure(error).status !== 401 || caller?.isFinal !== false) throw error
      await caller.renewed(sent)
      return listTools(backend)
    })
    backend.health.listed(performance.now() - start)
    this.#isListed = true
    const changed = await refreshPromptsAndResources(backend)
    if (!changed && sameTexts(backend.received.tools, tools)) return
    this.#show(tools)
  }

  async #failed(failure: BackendFailure): Promise<void> {
    const { backend } = this
    if (failure.link !== undefined) {
      await this.#showOpenTools()
      return
    }
    backend.health.failed(failure)
    backend.legacySupport.forget()
    backend.log.debug({ code: failure.code, reason: failure.message }, 'no list of tools for a caller')
    // If the backend refuses the credential, the lists that it gave for that credential are no longer shown.
    if (failure.status !== 401 && failure.status !== 403) return
    const { received } = backend
    if (received.tools === undefined || received.tools.length === 0) return
    this.#show([])
  }

  /**
   * Shows the public tools while the caller's lists are unavailable, so that a call can tell the caller where to log
   * in.
   */
  async #showOpenTools(): Promise<void> {
    const { backend } = this
    const tools = this.#isListed ? undefined : await this.#options.openTools()
    if (backend.closed || tools === undefined || sameTexts(backend.received.tools, tools)) return
    this.#show(tools)
  }

  #show(tools: readonly BackendTool[]): void {
    const { received } = this.backend
    const { lists, onChange } = this.#options
    received.tools = lists.same('tools', tools)
    for (const kind of ITEM_KINDS) received[kind] = lists.same(kind, received[kind])
    onChange()
  }
}
