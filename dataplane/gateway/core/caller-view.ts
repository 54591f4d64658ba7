import type { LRUCache } from 'lru-cache'
import type { GatewayConfig } from '../../config/gateway.ts'
import { CallerCredential, type CredentialCache, type Subject } from '../../credentials/index.ts'
import type { Caller } from '../../identity/caller.ts'
import { keptBytes } from '../../server/kept-text.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog, type Catalog } from '../aggregation/catalog.ts'
import {
  buildPromptResourceCatalog,
  holderOf,
  type PromptResourceCatalog,
} from '../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { PersonalBackend } from '../backends/personal-backend.ts'
import { CallerFeed } from '../backends/refresh/caller-feed.ts'
import { missingBackends } from './readiness.ts'
import type { View } from './view.ts'

/** Both catalogs of a view, and when they were built. */
export interface Built extends Catalogs {
  /** Of the lists of the gateway that they were built from. */
  readonly version: number
}

/** What all views of callers stand on. */
export interface ViewGround {
  readonly config: GatewayConfig
  readonly personal: readonly PersonalBackend[]
  /** What nobody's credential is sent for. */
  readonly shared: View
  /** Changes with the lists in `shared`. */
  readonly version: number
  readonly cache: CredentialCache
  /** Catalogs of views: beyond a bound in bytes those that were not used for longest are built anew. */
  readonly built: LRUCache<CallerView, Built>
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
  readonly #ground: ViewGround
  #subject: Subject
  #own: readonly Own[] = []
  /** What is kept in `built` of this view. */
  #kept: Built | undefined
  #backends: readonly Backend[] = []
  #named: ReadonlyMap<string, Backend> = new Map()
  #version = -1
  /** `performance.now()` from which on it is looked whether lists have become old. */
  #lookAt = 0
  /** The version under which all lists had been asked for. */
  #listedVersion = -1

  constructor(ground: ViewGround, subject: Subject) {
    this.#ground = ground
    this.#subject = subject
  }

  /** The caller comes with a token that has just been verified: it is the one that is exchanged from now on. */
  isOf(subject: Subject, caller: Caller): void {
    this.#subject = subject
    this.caller = caller
  }

  /** Its catalogs are among those that were used last. */
  keep(): void {
    this.#ground.built.get(this)
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
    return this.#built().catalog
  }

  get promptsAndResources(): PromptResourceCatalog {
    return this.#built().promptsAndResources
  }

  /** Both as they are now. */
  get catalogs(): Catalogs {
    return this.#built()
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
      feed: new CallerFeed(backend, () => this.#changed(), of.openTools),
    }
  }

  #built(): Built {
    const { version } = this.#ground
    if (this.#kept !== undefined && this.#kept.version === version) return this.#kept
    const { built, config } = this.#ground
    const promptsAndResources = buildPromptResourceCatalog(config, this.backends)
    const catalog = buildCatalog(config, this.backends, (uri) => holderOf(promptsAndResources, uri))
    const next: Built = { version, catalog, promptsAndResources }
    built.set(this, next, { size: sizeOf(next) })
    // What is larger than all that may be kept is not.
    this.#kept = built.peek(this)
    return next
  }

  /** There is no room for these any more. */
  letGoOf(built: Built): void {
    if (this.#kept === built) this.#kept = undefined
  }

  #changed(): void {
    const before = this.#kept
    this.#ground.built.delete(this)
    if (before !== undefined) this.#ground.changed(this, before)
  }
}

/** What a tool or another item of a catalog costs beside its text. */
const ITEM_BYTES = 512

/** Bytes that catalogs take, with what is kept of their lists once these were sent. */
export function sizeOf({ catalog, promptsAndResources }: Catalogs): number {
  const { legacyList, modernList, plain, routes, stepTools } = catalog
  const { lists, prompts, uris } = promptsAndResources
  const plainTools = plain.legacyList === legacyList ? [] : [plain.legacyList, plain.modernList]
  const others = Object.values(lists).flatMap(({ legacy, modern }) => [legacy, modern])
  const shown = [legacyList, modernList, ...plainTools, ...others].reduce((sum, list) => sum + keptBytes(list), 0)
  // The texts of items are held once more, as they were read.
  const read = [legacyList, modernList, ...others].reduce((sum, { length }) => sum + length, 0)
  return shown + read + ITEM_BYTES * (routes.size + stepTools.size + prompts.size + uris.size + 1)
}
