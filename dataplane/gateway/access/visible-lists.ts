import { setImmediate } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { memoize } from '../../../crds/settings/json.ts'
import type { Policies, Principal } from '../../policy/index.ts'
import { countKeptBytes } from '../../server/body.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import { type ItemKind, type ListKind, listForms } from '../backends/lists/list-kind.ts'
import { withoutPage } from '../mcp/apps.ts'
import { type Listed, listedItems, listedTools, listTexts, resourceSubject } from './subjects.ts'

export interface Catalogs {
  readonly catalog: Catalog
  readonly promptsAndResources: PromptResourceCatalog
}

export interface ListForm {
  readonly era: 'modern' | 'legacy'
  /** True if the list includes tools that only apps may use. */
  readonly withApps: boolean
}

const MOST_BYTES = 32 * 1024 * 1024
/** The memory of a cached entry in addition to its list. */
const ENTRY_BYTES = 300
/** The time in milliseconds after which the evaluation pauses for other requests. */
const TURN_MS = 5

/** The number of items of a list, and of those that the caller may see. */
export interface ListCounts {
  readonly items: number
  readonly allowed: number
}

/** Marks a list of which the caller sees all items, so that it is sent unchanged. */
const EVERYTHING = Symbol('everything')

/** Filters lists item by item for callers. Callers for whom policies decide in the same way share cached lists. */
export class VisibleLists {
  readonly #policies: Policies
  readonly #made = new LRUCache<string, Buffer | typeof EVERYTHING>({ maxSize: MOST_BYTES })
  readonly #making = new Map<string, Promise<Buffer | typeof EVERYTHING>>()
  /**
   * Returns the number of a current list. It serves as a cache key, so that the cache does not keep the buffer in
   * memory.
   */
  readonly #findNumber = memoize((_base: Buffer) => ++this.#last)
  /** The item counts of lists that were returned. */
  readonly #counts = new WeakMap<Buffer, ListCounts>()
  #last = 0

  constructor(policies: Policies) {
    this.#policies = policies
  }

  /** Returns the result of a list request, serialized. */
  get(principal: Principal, kind: ListKind, catalogs: Catalogs, form: ListForm): Buffer | Promise<Buffer> {
    const base = findBase(kind, catalogs, form)
    const key = `${this.#findNumber(base)} ${principal.digest}`
    const made = this.#made.get(key)
    if (made !== undefined) return made === EVERYTHING ? base : made
    const making =
      this.#making.get(key) ?? this.#make(key, base, () => this.#findShown(principal, kind, catalogs), kind)
    return making.then((list) => (list === EVERYTHING ? base : list))
  }

  #make(key: string, base: Buffer, shown: () => Promise<ReadonlyMap<string, string>>, kind: ListKind) {
    const making = shown()
      .then((texts) => {
        const { list, counts } = filterLists(base, listForms[kind].member, texts)
        this.#counts.set(list === EVERYTHING ? base : list, counts)
        const size = ENTRY_BYTES + (list === EVERYTHING ? 0 : countKeptBytes(list))
        if (size < MOST_BYTES) this.#made.set(key, list, { size })
        return list
      })
      .finally(() => this.#making.delete(key))
    this.#making.set(key, making)
    return making
  }

  /** Returns the counts of a list that `get` returned. */
  countsOf(list: Buffer): ListCounts | undefined {
    return this.#counts.get(list)
  }

  /** Returns the names of the backends of which the caller sees any item. */
  async backends(principal: Principal, catalogs: Catalogs): Promise<ReadonlySet<string | undefined>> {
    const seen = new Set<string | undefined>()
    for (const kind of Object.keys(listForms) as ListKind[])
      for (const { subject } of await this.#filterAllowed(principal, listAll(kind, catalogs))) seen.add(subject.backend)
    return seen
  }

  /**
   * Returns the items that the caller may see, by their texts. A tool loses its page if the caller may not read the
   * page.
   */
  async #findShown(principal: Principal, kind: ListKind, catalogs: Catalogs): Promise<ReadonlyMap<string, string>> {
    const allowed = await this.#filterAllowed(principal, listAll(kind, catalogs))
    return new Map(
      allowed.flatMap(({ text, sessionText = text, page }) => {
        const isDenied = page !== undefined && !this.#mayReadPage(principal, catalogs, page)
        return [text, sessionText].map((one) => [one, isDenied ? withoutPage(one) : one] as const)
      }),
    )
  }

  #mayReadPage(principal: Principal, { promptsAndResources }: Catalogs, page: string): boolean {
    return this.#policies.allows(principal, resourceSubject(promptsAndResources, page))
  }

  async #filterAllowed(principal: Principal, items: readonly Listed[]): Promise<readonly Listed[]> {
    const allowed: Listed[] = []
    let since = performance.now()
    for (const item of items) {
      if (performance.now() - since > TURN_MS) {
        await setImmediate()
        since = performance.now()
      }
      const { subject, besides } = item
      if (
        this.#policies.allows(principal, subject) &&
        (besides === undefined || this.#policies.allows(principal, besides))
      )
        allowed.push(item)
    }
    return allowed
  }
}

const listAll = (kind: ListKind, { catalog, promptsAndResources }: Catalogs): readonly Listed[] =>
  kind === 'tools' ? listedTools(catalog) : listedItems(promptsAndResources, kind as ItemKind)

export function findBase(
  kind: ListKind,
  { catalog, promptsAndResources }: Catalogs,
  { era, withApps }: ListForm,
): Buffer {
  if (kind !== 'tools') return promptsAndResources.lists[kind][era]
  const { legacyList, modernList } = withApps ? catalog : catalog.plain
  return era === 'modern' ? modernList : legacyList
}

/** Returns the list with only the items in `shown`, in the texts given there. */
function filterLists(
  base: Buffer,
  member: string,
  shown: ReadonlyMap<string, string>,
): { readonly list: Buffer | typeof EVERYTHING; readonly counts: ListCounts } {
  const texts = listTexts(base, member)
  const left = texts.flatMap((text) => shown.get(text) ?? [])
  const counts = { items: texts.length, allowed: left.length }
  if (left.length === texts.length && left.every((text, index) => text === texts[index]))
    return { list: EVERYTHING, counts }
  const opening = `"${member}":[`
  const head = base.subarray(0, base.indexOf(opening) + opening.length)
  return { list: Buffer.concat([head, Buffer.from(`${left.join(',')}]}`)]), counts }
}
