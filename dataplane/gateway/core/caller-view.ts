import type { GatewayConfig } from '../../config/gateway.ts'
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

/** What all views of callers stand on. */
export interface ViewGround {
  readonly config: GatewayConfig
  readonly personal: readonly PersonalBackend[]
  /** What nobody's credential is sent for. */
  readonly shared: View
  /** Changes with the lists in `shared`. */
  readonly version: number
  readonly cache: CredentialCache
  readonly lists: SharedLists
  readonly catalogs: SharedCatalogs
  /** The lists of a view have changed. */
  changed(view: CallerView, before: Catalogs): void
}

/** Whether lists of a caller have become old is looked at so often. */
const LOOK_MS = 100

interface Own {
  readonly of: PersonalBackend
  readonly backend: Backend
  readonly feed: CallerFeed
}

/**
 * What one caller sees where backends get credentials of their callers: those backends are the caller's own, with
 * everything that belongs to them; all others are the ones that everybody has.
 */
export class CallerView implements View {
  /** `performance.now()` of the caller's last request. */
  usedAt = Number.NEGATIVE_INFINITY
  /** Who came last, as it is known by its token. */
  caller: Caller | undefined
  readonly binding: string
  /** Where its catalogs are kept; undefined where none were needed since they changed. */
  kept: KeptCatalogs | undefined
  readonly #ground: ViewGround
  #subject: Subject
  #own: readonly Own[] = []
  #backends: readonly Backend[] = []
  #named: ReadonlyMap<string, Backend> = new Map()
  #version = -1
  /** `performance.now()` from which on it is looked whether lists have become old. */
  #lookAt = 0
  /** The version under which all lists had been asked for. */
  #listedVersion = -1

  /** The name by which this view is kept. */
  readonly key: string

  /** @param binding the name by which things of the caller are kept */
  constructor(ground: ViewGround, binding: string, subject: Subject, key: string) {
    this.#ground = ground
    this.binding = binding
    this.key = key
    this.#subject = subject
  }

  /** The caller comes with a token that has just been verified: it is the one that is exchanged from now on. */
  isOf(subject: Subject, caller: Caller): void {
    this.#subject = subject
    this.caller = caller
  }

  /** Its catalogs are among those that were used last. */
  keep(): void {
    if (this.kept !== undefined) this.#ground.catalogs.touch(this.kept)
  }

  /** The caller is here, at `now` (`performance.now()`). */
  arrived(now: number): void {
    this.usedAt = now
    if (now < this.#lookAt && this.#version === this.#ground.version) return
    this.#lookAt = now + LOOK_MS
    for (const { feed } of this.#current()) feed.keepFresh(now)
  }

  get backends(): readonly Backend[] {
    this.#current()
    return this.#backends
  }

  get allListed(): boolean {
    const { version, shared } = this.#ground
    if (this.#listedVersion === version) return true
    if (!shared.allListed) return false
    for (const { feed } of this.#current()) if (!feed.isTried) return false
    this.#listedVersion = version
    return true
  }

  async firstLists(): Promise<void> {
    await Promise.all([this.#ground.shared.firstLists(), ...this.#current().map(({ feed }) => feed.first())])
  }

  get missing(): readonly Backend[] {
    return missingBackends(this.#ground.config, this.backends)
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

  /** Both as they are now. */
  get catalogs(): Catalogs {
    const kept = this.kept
    if (kept?.catalogs !== undefined && kept.version === this.#ground.version) return kept.catalogs
    const { version, catalogs: shared } = this.#ground
    const taken = shared.take(
      version,
      this.#current().map(({ backend }) => backend),
      () => buildCatalogs(this.#ground.config, this.backends),
    )
    this.kept = taken.kept
    return taken.catalogs
  }

  /** Backends that are this caller's alone. */
  get own(): readonly Backend[] {
    return this.#own.map(({ backend }) => backend)
  }

  /** The caller's own backends under the configuration in force; those that it has no more are let go of. */
  #current(): readonly Own[] {
    const { version, personal, shared } = this.#ground
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
    const credential = new CallerCredential(of.strategy, this.#ground.cache, () => this.#subject)
    const backend = of.open(credential)
    return {
      of,
      backend,
      feed: new CallerFeed(backend, {
        onChange: () => this.#changed(),
        openTools: of.openTools,
        lists: this.#ground.lists,
      }),
    }
  }

  #changed(): void {
    const before = this.kept?.catalogs
    this.kept = undefined
    if (before !== undefined) this.#ground.changed(this, before)
  }
}
