import { isObject } from '../../../../crds/settings/json.ts'
import { type EntryKind, type ReadEntry, readEntry } from '../../mcp/entry-rules.ts'
import { detached, Elements, memberText } from '../../mcp/json.ts'
import type { ListForm, ListKind } from './list-kind.ts'

/** An item of a backend's list. */
export interface BackendItem {
  /** Name, URI or URI template. */
  readonly key: string
  /** The backend's own JSON text, with repairs only: unknown members are shown unchanged. */
  readonly text: string
}

/** A repair of a list entry, or the reason to omit it. */
export interface EntryNote {
  readonly isLeftOut: boolean
  /** A text for operators: the kind, the entry and the rule. */
  readonly message: string
}

/** One page of a backend's list. */
export interface ListPage<T> {
  readonly items: readonly T[]
  readonly nextCursor: string | undefined
  readonly notes: readonly EntryNote[]
}

/** An entry of a page that meets the rules of clients. */
export interface NewEntry extends BackendItem {
  readonly value: Readonly<Record<string, unknown>>
}

/** The way to read a page. Without a kind the only rule for its entries is that of the key. */
export type ReadPage = Pick<ListForm, 'member' | 'key'> & { readonly kind?: EntryKind }

/** The most characters of a note: notes are kept and logged, and the names in them come from the backend. */
const LONGEST_NOTE = 300
const LONGEST_KEY = 100
const SINGULAR: Readonly<Record<ListKind, string>> = {
  tools: 'tool',
  prompts: 'prompt',
  resources: 'resource',
  templates: 'resource template',
}

/**
 * Reads the answer to a request for a list. Entries that clients refuse are repaired or omitted. The list ends at the
 * first entry that `fits` refuses. `itemOf` makes an item of an entry or returns the rule that omits it. Throws a
 * TypeError if the answer holds no list.
 */
export function readPage<T>(
  answer: string,
  { kind, member, key }: ReadPage,
  itemOf: (entry: NewEntry) => T | string,
  fits: (textLength: number) => boolean = () => true,
): ListPage<T> {
  const result = memberText(answer, 'result')
  const list = result === undefined ? undefined : memberText(result, member)
  if (result === undefined || list === undefined || !list.startsWith('[')) throw new TypeError(`no list of ${member}`)
  const cursor: unknown = JSON.parse(memberText(result, 'nextCursor') ?? 'null')
  const page = new Page(kind ?? 'tools', itemOf)
  const elements = new Elements(list, 0)
  while (elements.next()) {
    const text = elements.value
    if (!fits(text.length)) break
    const entry = kind === undefined ? plainEntry(text) : readEntry(kind, text)
    page.take(entry, 'broken' in entry ? nameIn(text, key) : entry.value[key], key)
  }
  const { items, notes } = page
  return { items, nextCursor: typeof cursor === 'string' ? cursor : undefined, notes }
}

/** The items of a page, and the notes on its entries. */
class Page<T> {
  readonly items: T[] = []
  readonly notes: EntryNote[] = []
  readonly #kind: ListKind
  readonly #itemOf: (entry: NewEntry) => T | string

  constructor(kind: ListKind, itemOf: (entry: NewEntry) => T | string) {
    this.#kind = kind
    this.#itemOf = itemOf
  }

  /** Adds an entry; `name` is the value of its member `key`. */
  take(entry: ReadEntry, name: unknown, key: string): void {
    if (typeof name !== 'string' || name === '') {
      this.#note(true, `without a ${key} is left out`)
      return
    }
    const quoted = JSON.stringify(name.slice(0, LONGEST_KEY))
    if ('broken' in entry) {
      this.#note(true, `${quoted} is left out: ${entry.broken}`)
      return
    }
    const { text, value, mended } = entry
    const item = this.#itemOf({ key: name, text: detached(text), value })
    if (typeof item === 'string') {
      this.#note(true, `${quoted} is left out: ${item}`)
      return
    }
    this.items.push(item)
    if (mended.length > 0) this.#note(false, `${quoted} is mended: ${mended.join(', ')}`)
  }

  #note(isLeftOut: boolean, message: string): void {
    this.notes.push({ isLeftOut, message: `${SINGULAR[this.#kind]} ${message}`.slice(0, LONGEST_NOTE) })
  }
}

/** Reads a page of a list of this kind, or of one of the gateway's own form. */
export const readListPage = (
  answer: string,
  form: ReadPage,
  fits?: (textLength: number) => boolean,
): ListPage<BackendItem> => readPage(answer, form, ({ key, text }) => ({ key, text }), fits)

function plainEntry(text: string) {
  const value: unknown = JSON.parse(text)
  return { text, value: isObject(value) ? value : {}, mended: [] }
}

function nameIn(entry: string, key: string): unknown {
  const value: unknown = JSON.parse(entry)
  return isObject(value) ? value[key] : undefined
}
