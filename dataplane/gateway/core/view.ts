import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { memoize } from '../../../crds/settings/json.ts'
import { isLoopback } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Workflow } from '../../config/workflow/compiled.ts'
import { countKeptBytes } from '../../server/body.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog } from '../aggregation/catalog.ts'
import { buildPromptResourceCatalog, findPageUri, findPlace } from '../aggregation/prompt-resource-catalog.ts'
import { readShape } from '../aggregation/shape.ts'
import type { UriNames } from '../aggregation/uri-names.ts'
import type { Backend } from '../backends/backend/backend.ts'

/**
 * One caller's view of the backends: the shared view or, if some backend uses the caller's credential, the caller's
 * own. All access to backends for a caller goes through it.
 */
export interface View extends Catalogs {
  readonly backends: readonly Backend[]
  /** True if every backend has been asked for its lists, with or without success. */
  readonly allListed: boolean
  /** Resolves when every backend has returned its lists, or has taken too long. */
  firstLists(): Promise<void>
  /** The missing backends that make lists fail. */
  readonly missing: readonly Backend[]
  findBackend(name: string): Backend | undefined
}

export interface ResourceAt {
  readonly backend: Backend
  readonly own: string
  /** The mapping of the backend's URIs to those that clients know; undefined if they are equal. */
  readonly names: UriNames | undefined
}

/** Finds the backend of a resource in this view; undefined if no backend is known to have it. */
export function findResource(view: View, uri: string): ResourceAt | undefined {
  const place = findPlace(view.promptsAndResources, uri)
  const backend = place === undefined ? undefined : view.findBackend(place.backend)
  if (place === undefined || backend === undefined) return undefined
  return { backend, own: place.uri, names: view.promptsAndResources.names?.get(backend.name) }
}

/** Returns the backends that have never listed their tools and may have a tool of this name. */
export const unlistedBackendsFor = (
  config: GatewayConfig,
  backends: readonly Backend[],
  name: string,
): readonly Backend[] =>
  backends.filter((backend) => {
    if (backend.tools !== undefined) return false
    const { prefix, filter, hidden } = readShape(config, backend.name)
    return !hidden && name.startsWith(prefix) && (filter === undefined || filter.has(name.slice(prefix.length)))
  })

/**
 * Builds the catalogs of these backends together, because a tool's page depends on which backend has which resource.
 * Withheld composite tools are left out.
 */
export function buildCatalogs(
  config: GatewayConfig,
  backends: readonly Backend[],
  isWithheld?: (workflow: Workflow) => boolean,
): Catalogs {
  const promptsAndResources = buildPromptResourceCatalog(config, backends)
  const page = (backend: string, uri: string) => findPageUri(promptsAndResources, backend, uri)
  const catalog = buildCatalog(config, backends, page, isWithheld)
  return { catalog, promptsAndResources }
}

/**
 * Tells whether this is a proxy that has never reached its server. Its tools are then unknown, which differs from none.
 */
const isNeverReached = ({ role }: GatewayConfig, backends: readonly Backend[]): boolean =>
  role === 'proxy' && backends.every(({ silent }) => silent)

/**
 * Tells whether a proxy waits for the server in its own pod, which starts later. Without this wait a rollout would send
 * callers to a pod that can't serve them yet. A remote server that can't be reached does not affect readiness.
 */
export function isWaitingForServer(config: GatewayConfig, backends: readonly Backend[]): boolean {
  const inThisPod = ({ url }: Backend) => url.protocol === 'stdio:' || isLoopback(url)
  return isNeverReached(config, backends) && backends.every(inThisPod)
}

/**
 * Returns the missing backends that make lists fail: nothing can be shown, or a part is missing and partial lists are
 * not allowed. A backend that waits for its caller's login at a provider does not count, because others serve without
 * it.
 */
export function missingBackends(config: GatewayConfig, backends: readonly Backend[]): readonly Backend[] {
  if (isNeverReached(config, backends)) return backends
  if (config.failureHandling?.partialFailureMode !== 'fail') return []
  return backends.filter(
    ({ tools, health, caller }) => caller?.link === undefined && (tools === undefined || health.state === 'unhealthy'),
  )
}

/** A handle of a view's catalogs, which may be dropped. */
export interface KeptCatalogs {
  /** The key of the sources that they were built from. */
  readonly key: string
  /** The version of the shared lists that they were built from. */
  readonly version: number
  /** The catalogs; undefined if they were dropped. */
  catalogs: Catalogs | undefined
}

/** The most catalogs in the cache, whatever their size. */
const MOST = 4096

/**
 * Caches the catalogs of callers by the lists that they are built from, so that callers to whom all backends show the
 * same lists share them. They contain nothing that belongs to one caller. Beyond a limit in bytes the least recently
 * used ones are dropped, and rebuilt when needed.
 */
export class SharedCatalogs {
  readonly #kept: LRUCache<string, KeptCatalogs>

  /** @param mostBytes the limit of all catalogs together */
  constructor(mostBytes: number) {
    this.#kept = new LRUCache({
      max: MOST,
      maxSize: mostBytes,
      dispose: (kept) => {
        kept.catalogs = undefined
      },
    })
  }

  get count(): number {
    return this.#kept.size
  }

  /**
   * Returns the catalogs of these own backends and the shared ones at this `version` of the shared lists, and builds
   * them if necessary. `kept`: the handle that holds them until they are dropped. `set`: the key of the set of shown
   * backends, if these are not all.
   */
  take(
    version: number,
    own: readonly Backend[],
    build: () => Catalogs,
    set = '',
  ): { readonly kept: KeptCatalogs; readonly catalogs: Catalogs } {
    const key = formatKey(version, own, set)
    const known = this.#kept.get(key)
    if (known?.catalogs !== undefined) return { kept: known, catalogs: known.catalogs }
    const catalogs = build()
    const kept: KeptCatalogs = { key, version, catalogs }
    this.#kept.set(key, kept, { size: measureCatalogs(catalogs) })
    // Catalogs that exceed the whole limit are not cached.
    if (!this.#kept.has(key)) kept.catalogs = undefined
    return { kept, catalogs }
  }

  /** Marks catalogs as recently used. */
  touch({ key }: KeptCatalogs): void {
    this.#kept.get(key)
  }

  keepOnly(used: ReadonlySet<KeptCatalogs | undefined>): void {
    for (const [key, kept] of this.#kept.entries()) if (!used.has(kept)) this.#kept.delete(key)
  }
}

let lists = 0
/** Numbers lists. Equal lists are one object for all callers (`SharedLists`). */
const numberList = memoize((_list: object) => ++lists)

/** Returns a key of all facts about the backends that catalogs depend on. */
function formatKey(version: number, own: readonly Backend[], set: string): string {
  const parts = own.map(({ name, tools, prompts, resources, templates, skills, capabilities, instructions, era }) => [
    name,
    tools === undefined ? null : numberList(tools),
    [prompts, resources, templates, skills].map(numberList),
    capabilities,
    instructions ?? null,
    era?.era ?? null,
  ])
  return hash('sha256', JSON.stringify([version, parts, set]), 'base64url')
}

/** The memory of a tool or other item of a catalog, in addition to its text. */
const ITEM_BYTES = 512

/** Returns the bytes of catalogs, including the caches of their lists after these were sent. */
export function measureCatalogs({ catalog, promptsAndResources }: Catalogs): number {
  const { legacyList, modernList, plain, routes, stepTools } = catalog
  const { lists, prompts, uris, skills } = promptsAndResources
  const ofSkills = skills === undefined ? 0 : 2 * skills.skills.length + skills.spellings.size
  const plainTools = plain.legacyList === legacyList ? [] : [plain.legacyList, plain.modernList]
  const others = Object.values(lists).flatMap(({ legacy, modern }) => [legacy, modern])
  const shown = [legacyList, modernList, ...plainTools, ...others].reduce((sum, list) => sum + countKeptBytes(list), 0)
  // The texts of items are also stored as they were read.
  const read = [legacyList, modernList, ...others].reduce((sum, { length }) => sum + length, 0)
  return shown + read + ITEM_BYTES * (routes.size + stepTools.size + prompts.size + uris.size + ofSkills + 1)
}
