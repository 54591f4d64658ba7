import { setImmediate } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Policies, Principal } from '../../policy/index.ts'
import { keptBytes } from '../../server/kept-text.ts'
import type { Catalog } from '../aggregation/catalog.ts'
import type { PromptResourceCatalog } from '../aggregation/prompt-resource-catalog.ts'
import { type ItemKind, type ListKind, listForms } from '../backends/lists/list-kind.ts'
import { type Listed, listedItems, listedTools, textsIn } from './subjects.ts'

/** What lists are made of. */
export interface Catalogs {
  readonly catalog: Catalog
  readonly promptsAndResources: PromptResourceCatalog
}

/** The form in which a list is asked for. */
export interface ListForm {
  readonly era: 'modern' | 'legacy'
  /** With tools that are for apps alone. */
  readonly withApps: boolean
}

const MOST_BYTES = 32 * 1024 * 1024
/** What an entry costs beside the list. */
const ENTRY_BYTES = 300
/** Decisions are made for so long before other requests have their turn. */
const TURN_MS = 5

/** How many items a list has, and how many of them the caller may see. */
export interface ListCounts {
  readonly items: number
  readonly allowed: number
}

/** All of a list is visible: it is answered as it is. */
const EVERYTHING = Symbol('everything')

/** Lists as callers may see them: filtered item by item, kept for callers whom policies judge alike. */
export class VisibleLists {
  readonly #policies: Policies
  readonly #made = new LRUCache<string, Buffer | typeof EVERYTHING>({ maxSize: MOST_BYTES })
  readonly #making = new Map<string, Promise<Buffer | typeof EVERYTHING>>()
  /** Lists that are in force have a number each: the buffers themselves are not to be kept. */
  readonly #numbers = new WeakMap<Buffer, number>()
  /** Of lists as they are answered. */
  readonly #counts = new WeakMap<Buffer, ListCounts>()
  #last = 0

  constructor(policies: Policies) {
    this.#policies = policies
  }

  /** The result of a list request, serialized. */
  get(principal: Principal, kind: ListKind, catalogs: Catalogs, form: ListForm): Buffer | Promise<Buffer> {
    const base = baseOf(kind, catalogs, form)
    const key = `${this.#numberOf(base)} ${principal.digest}`
    const made = this.#made.get(key)
    if (made !== undefined) return made === EVERYTHING ? base : made
    const making = this.#making.get(key) ?? this.#make(key, base, () => this.#shownOf(principal, kind, catalogs), kind)
    return making.then((list) => (list === EVERYTHING ? base : list))
  }

  #make(key: string, base: Buffer, shown: () => Promise<ReadonlySet<string>>, kind: ListKind) {
    const making = shown()
      .then((texts) => {
        const { list, counts } = filtered(base, listForms[kind].member, texts)
        this.#counts.set(list === EVERYTHING ? base : list, counts)
        const size = ENTRY_BYTES + (list === EVERYTHING ? 0 : keptBytes(list))
        if (size < MOST_BYTES) this.#made.set(key, list, { size })
        return list
      })
      .finally(() => this.#making.delete(key))
    this.#making.set(key, making)
    return making
  }

  /** Of a list that `get` gave. */
  countsOf(list: Buffer): ListCounts | undefined {
    return this.#counts.get(list)
  }

  /** Names of the backends of which the caller may see anything. */
  async backends(principal: Principal, catalogs: Catalogs): Promise<ReadonlySet<string | undefined>> {
    const seen = new Set<string | undefined>()
    for (const kind of Object.keys(listForms) as ListKind[])
      for (const { subject } of await this.#allowed(principal, listedIn(kind, catalogs))) seen.add(subject.backend)
    return seen
  }

  /** Texts of the items that the caller may see. */
  async #shownOf(principal: Principal, kind: ListKind, catalogs: Catalogs): Promise<ReadonlySet<string>> {
    const allowed = await this.#allowed(principal, listedIn(kind, catalogs))
    return new Set(allowed.flatMap(({ text, sessionText = text }) => [text, sessionText]))
  }

  async #allowed(principal: Principal, items: readonly Listed[]): Promise<readonly Listed[]> {
    const allowed: Listed[] = []
    let since = performance.now()
    for (const item of items) {
      if (performance.now() - since > TURN_MS) {
        await setImmediate()
        since = performance.now()
      }
      if (this.#policies.allows(principal, item.subject)) allowed.push(item)
    }
    return allowed
  }

  #numberOf(base: Buffer): number {
    let number = this.#numbers.get(base)
    if (number === undefined) this.#numbers.set(base, (number = ++this.#last))
    return number
  }
}

const listedIn = (kind: ListKind, { catalog, promptsAndResources }: Catalogs): readonly Listed[] =>
  kind === 'tools' ? listedTools(catalog) : listedItems(promptsAndResources, kind as ItemKind)

/** The list with everything in it. */
export function baseOf(
  kind: ListKind,
  { catalog, promptsAndResources }: Catalogs,
  { era, withApps }: ListForm,
): Buffer {
  if (kind !== 'tools') return promptsAndResources.lists[kind][era]
  const { legacyList, modernList } = withApps ? catalog : catalog.plain
  return era === 'modern' ? modernList : legacyList
}

/** The list without the items whose texts are not `shown`. */
function filtered(
  base: Buffer,
  member: string,
  shown: ReadonlySet<string>,
): { readonly list: Buffer | typeof EVERYTHING; readonly counts: ListCounts } {
  const texts = textsIn(base, member)
  const left = texts.filter((text) => shown.has(text))
  const counts = { items: texts.length, allowed: left.length }
  if (left.length === texts.length) return { list: EVERYTHING, counts }
  const opening = `"${member}":[`
  const head = base.subarray(0, base.indexOf(opening) + opening.length)
  return { list: Buffer.concat([head, Buffer.from(`${left.join(',')}]}`)]), counts }
}
