import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { keptBytes } from '../../server/kept-text.ts'
import { memoized } from '../access/subjects.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** Catalogs of views, for as long as there is room for them. */
export interface KeptCatalogs {
  /** Of what they were built from. */
  readonly key: string
  /** Of the lists of the gateway that they were built from. */
  readonly version: number
  /** Undefined when there is no room for them any more. */
  readonly catalogs: Catalogs | undefined
}

type Kept = { -readonly [Name in keyof KeptCatalogs]: KeptCatalogs[Name] }

/** There are no more, whatever their size. */
const MOST = 4096

/**
 * Catalogs of callers by what they are built from: those to whom all backends show the same have them in common. Nothing
 * in them is a caller's own. Beyond a bound in bytes those that were not used for longest are built anew.
 */
export class SharedCatalogs {
  readonly #kept: LRUCache<string, Kept>

  /** @param mostBytes what they may take together */
  constructor(mostBytes: number) {
    this.#kept = new LRUCache({
      max: MOST,
      maxSize: mostBytes,
      dispose: (kept) => {
        kept.catalogs = undefined
      },
    })
  }

  /** How many are kept. */
  get count(): number {
    return this.#kept.size
  }

  /**
   * The catalogs of whoever has these backends of its own beside those that all have, under this `version` of what all
   * see; built where there are none yet. `kept`: the place where they stay for as long as there is room.
   */
  take(
    version: number,
    own: readonly Backend[],
    build: () => Catalogs,
  ): { readonly kept: KeptCatalogs; readonly catalogs: Catalogs } {
    const key = keyOf(version, own)
    const known = this.#kept.get(key)
    if (known?.catalogs !== undefined) return { kept: known, catalogs: known.catalogs }
    const catalogs = build()
    const kept: Kept = { key, version, catalogs }
    this.#kept.set(key, kept, { size: sizeOf(catalogs) })
    // What is larger than all that may be kept is not.
    if (!this.#kept.has(key)) kept.catalogs = undefined
    return { kept, catalogs }
  }

  /** They are used: others are to go before them. */
  touch({ key }: KeptCatalogs): void {
    this.#kept.get(key)
  }

  /** Forgets those that nobody uses any more. */
  keepOnly(used: ReadonlySet<KeptCatalogs | undefined>): void {
    for (const [key, kept] of this.#kept.entries()) if (!used.has(kept)) this.#kept.delete(key)
  }
}

let lists = 0
/** A list is one object for all to whom the same is shown (`SharedLists`). */
const numberOf = memoized((_list: object) => ++lists)

/** Everything about the backends that catalogs depend on. */
function keyOf(version: number, own: readonly Backend[]): string {
  const parts = own.map(({ name, tools, prompts, resources, templates, capabilities, instructions, era }) => [
    name,
    tools === undefined ? null : numberOf(tools),
    [prompts, resources, templates].map(numberOf),
    capabilities,
    instructions ?? null,
    era?.era ?? null,
  ])
  return hash('sha256', JSON.stringify([version, parts]), 'base64url')
}

/** What a tool or another item of a catalog costs beside its text. */
const ITEM_BYTES = 512

/** Bytes that catalogs take, with what is kept of their lists once these were sent. */
function sizeOf({ catalog, promptsAndResources }: Catalogs): number {
  const { legacyList, modernList, plain, routes, stepTools } = catalog
  const { lists, prompts, uris } = promptsAndResources
  const plainTools = plain.legacyList === legacyList ? [] : [plain.legacyList, plain.modernList]
  const others = Object.values(lists).flatMap(({ legacy, modern }) => [legacy, modern])
  const shown = [legacyList, modernList, ...plainTools, ...others].reduce((sum, list) => sum + keptBytes(list), 0)
  // The texts of items are held once more, as they were read.
  const read = [legacyList, modernList, ...others].reduce((sum, { length }) => sum + length, 0)
  return shown + read + ITEM_BYTES * (routes.size + stepTools.size + prompts.size + uris.size + 1)
}
