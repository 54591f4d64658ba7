import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { keptBytes } from '../../server/kept-text.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { memoized } from '../aggregation/memoized.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** A handle of a view's catalogs, which may be dropped. */
export interface KeptCatalogs {
  /** The key of the sources that they were built from. */
  readonly key: string
  /** The version of the shared lists that they were built from. */
  readonly version: number
  /** The catalogs; undefined if they were dropped. */
  readonly catalogs: Catalogs | undefined
}

type Kept = { -readonly [Name in keyof KeptCatalogs]: KeptCatalogs[Name] }

/** The most catalogs in the cache, whatever their size. */
const MOST = 4096

/**
 * Caches the catalogs of callers by the lists that they are built from, so that callers to whom all backends show the
 * same lists share them. They contain nothing that belongs to one caller. Beyond a limit in bytes the least recently
 * used ones are dropped, and rebuilt when needed.
 */
export class SharedCatalogs {
  readonly #kept: LRUCache<string, Kept>

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
    const kept: Kept = { key, version, catalogs }
    this.#kept.set(key, kept, { size: measureCatalogs(catalogs) })
    // Catalogs that exceed the whole limit are not cached.
    if (!this.#kept.has(key)) kept.catalogs = undefined
    return { kept, catalogs }
  }

  /** Marks catalogs as recently used. */
  touch({ key }: KeptCatalogs): void {
    this.#kept.get(key)
  }

  /** Drops catalogs that no view uses. */
  keepOnly(used: ReadonlySet<KeptCatalogs | undefined>): void {
    for (const [key, kept] of this.#kept.entries()) if (!used.has(kept)) this.#kept.delete(key)
  }
}

let lists = 0
/** Numbers lists. Equal lists are one object for all callers (`SharedLists`). */
const numberList = memoized((_list: object) => ++lists)

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
  const shown = [legacyList, modernList, ...plainTools, ...others].reduce((sum, list) => sum + keptBytes(list), 0)
  // The texts of items are also stored as they were read.
  const read = [legacyList, modernList, ...others].reduce((sum, { length }) => sum + length, 0)
  return shown + read + ITEM_BYTES * (routes.size + stepTools.size + prompts.size + uris.size + ofSkills + 1)
}
