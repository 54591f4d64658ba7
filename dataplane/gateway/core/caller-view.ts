import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import { CallerCredential, type CredentialCache, type Subject } from '../../credentials/index.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { SharedLists } from '../backends/lists/shared-lists.ts'
import type { PersonalBackend } from '../backends/personal-backend.ts'
import { CallerFeed } from '../backends/refresh/caller-feed.ts'
import type { KeptCatalogs, SharedCatalogs } from './shared-catalogs.ts'
import { buildCatalogs, missingBackends, type View } from './view.ts'

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

  /** The key of this view. */
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

  /** The handles of its catalogs. */
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

  backendNamed(name: string): Backend | undefined {
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

  /** Returns the caller's own backends. */
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
