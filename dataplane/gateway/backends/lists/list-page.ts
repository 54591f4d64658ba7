import { isObject } from '../../../../crds/settings/json.ts'
import { readApp, type ToolApp } from '../../mcp/apps.ts'
import { type EntryKind, type ReadEntry, readEntry } from '../../mcp/entry-rules.ts'
import { InvalidParamHeader, type ParamHeader, readParamHeaders } from '../../mcp/eras.ts'
import { detach, Elements, memberText } from '../../mcp/json.ts'
import type { ListForm } from './list-kind.ts'

/** The facts about a skill that routes and filters use. */
interface SkillFacts {
  readonly name: string
  /** The URI of its folder, without a slash at its end. */
  readonly root: string
  /** The URIs of its files that are not below its root, or are spelled differently. */
  readonly files: readonly string[]
}

export interface BackendItem {
  /** Name, URI or URI template. */
  readonly key: string
  /** The backend's own JSON text, with repairs only. Unknown members stay unchanged. */
  readonly text: string
  /** The text before the repairs, if there were any. */
  readonly source?: string | undefined
  /** The facts about an entry of `skills/list`. */
  readonly skill?: SkillFacts
}

/** A note that a list entry was repaired, or why it was omitted. */
export interface EntryNote {
  readonly isLeftOut: boolean
  /** A text for operators: the kind, the entry and the rule. */
  readonly message: string
}

export interface ListPage<T> {
  readonly items: readonly T[]
  readonly nextCursor: string | undefined
  readonly notes: readonly EntryNote[]
}

/** An entry of a page that meets the rules of clients. */
export interface NewEntry extends BackendItem {
  readonly value: Readonly<Record<string, unknown>>
}

/** The form of a page. Without `kind` an entry needs only a valid key; `noun` then names the entry in notes. */
type ReadPage = Pick<ListForm, 'member' | 'key'> & { readonly kind?: EntryKind; readonly noun?: string }

interface ReadLimits {
  /** Tells whether an entry with this text length fits. The list ends at the first one that does not. */
  fits?(textLength: number): boolean
  /** Tells whether reports to operators may quote an entry's name and text. */
  mayTell?(key: string, text: string): boolean
}

/** The most characters of a note. Notes are stored and logged, and contain names that the backend chose. */
const LONGEST_NOTE = 300
const LONGEST_KEY = 100
const SINGULAR: Readonly<Record<EntryKind, string>> = {
  tools: 'tool',
  prompts: 'prompt',
  resources: 'resource',
  templates: 'resource template',
}

/**
 * Reads the answer to a list request. Entries that clients would refuse are repaired or omitted. `itemOf` converts an
 * entry to an item, or returns the rule that omits it. Throws a TypeError if the answer contains no list.
 */
export function readPage<T>(
  answer: string,
  { kind, member, key, noun }: ReadPage,
  itemOf: (entry: NewEntry) => T | string,
  limits: ReadLimits = {},
): ListPage<T> {
  const result = memberText(answer, 'result')
  const list = result === undefined ? undefined : memberText(result, member)
  if (result === undefined || list === undefined || !(list.startsWith('[') || list === 'null'))
    throw new TypeError(`no list of ${member}`)
  const cursor: unknown = JSON.parse(memberText(result, 'nextCursor') ?? 'null')
  const page = new Page(noun ?? SINGULAR[kind ?? 'tools'], itemOf, limits)
  // Some servers return null for an empty list.
  if (list !== 'null') page.read(list, kind, key)
  const { items, notes } = page
  return { items, nextCursor: typeof cursor === 'string' ? cursor : undefined, notes }
}

const isMended = (entry: ReadEntry): boolean => 'mended' in entry && entry.mended.length > 0

class Page<T> {
  readonly items: T[] = []
  readonly notes: EntryNote[] = []
  readonly #noun: string
  readonly #itemOf: (entry: NewEntry) => T | string
  readonly #limits: ReadLimits

  constructor(noun: string, itemOf: (entry: NewEntry) => T | string, limits: ReadLimits) {
    this.#noun = noun
    this.#itemOf = itemOf
    this.#limits = limits
  }

  /** Reads the entries of a list (JSON text), which `key` names. */
  read(list: string, kind: EntryKind | undefined, key: string): void {
    const fits = (text: string): boolean => this.#limits.fits?.(text.length) !== false
    const elements = new Elements(list, 0)
    while (elements.next()) {
      const text = elements.value
      if (!fits(text)) return
      const entry = kind === undefined ? plainEntry(text) : readEntry(kind, text)
      // A repaired entry is stored in both forms.
      if (isMended(entry) && !fits(text)) return
      this.take(entry, text, 'broken' in entry ? readName(text, key) : entry.value[key], key)
    }
  }

  /** Adds an entry. `source` is its JSON text, `name` the value of its member `key`. */
  take(entry: ReadEntry, source: string, name: unknown, key: string): void {
    if (typeof name !== 'string' || name === '') {
      this.#note(true, `without a ${key} is left out`)
      return
    }
    const quoted = JSON.stringify(name.slice(0, LONGEST_KEY))
    // The text of a violated rule may quote the entry.
    const mayTell = this.#limits.mayTell?.(name, source) !== false
    const leaveOut = (rule: string) =>
      this.#note(
        true,
        `${quoted} is left out: ${mayTell ? rule : 'it breaks a rule of the protocol, and is not approved'}`,
      )
    if ('broken' in entry) {
      leaveOut(entry.broken)
      return
    }
    const { text, value, mended } = entry
    const kept = { text: detach(text), ...(text === source ? {} : { source: detach(source) }) }
    const item = this.#itemOf({ key: name, ...kept, value })
    if (typeof item === 'string') {
      leaveOut(item)
      return
    }
    this.items.push(item)
    if (mended.length > 0 && mayTell) this.#note(false, `${quoted} is mended: ${mended.join(', ')}`)
  }

  #note(isLeftOut: boolean, message: string): void {
    this.notes.push({ isLeftOut, message: `${this.#noun} ${message}`.slice(0, LONGEST_NOTE) })
  }
}

/** Reads a page of a list of this kind, or of a list in the gateway's own form. */
export const readListPage = (answer: string, form: ReadPage, limits?: ReadLimits): ListPage<BackendItem> =>
  readPage(
    answer,
    form,
    ({ key, text, source }) => (source === undefined ? { key, text } : { key, text, source }),
    limits,
  )

function plainEntry(text: string): Exclude<ReadEntry, { readonly broken: string }> {
  const value: unknown = JSON.parse(text)
  return { text, value: isObject(value) ? value : {}, mended: [] }
}

const readName = (entry: string, key: string): unknown => plainEntry(entry).value[key]

export interface BackendTool extends Omit<BackendItem, 'skill'> {
  readonly paramHeaders: readonly ParamHeader[]
  readonly app: ToolApp | undefined
  /** True if the tool declares that a call may be repeated, because it is read-only or idempotent. */
  readonly isRepeatable: boolean
}

/**
 * Reads the answer to `tools/list`. Omits a tool with invalid header declarations (2026-07-28, transports: a client
 * must drop it), and a tool that clients would refuse. Throws a TypeError if the answer contains no list.
 */
export const readToolPage = (answer: string, limits?: ReadLimits): ListPage<BackendTool> =>
  readPage(answer, TOOLS, readTool, limits)

const TOOLS: ReadPage = { kind: 'tools', member: 'tools', key: 'name' }

/** Returns a tool, or the rule that omits it. */
function readTool({ key, text, source, value }: NewEntry): BackendTool | string {
  try {
    return {
      key,
      text,
      ...(source === undefined ? {} : { source }),
      paramHeaders: readParamHeaders(value['inputSchema']),
      app: readApp(value),
      isRepeatable: isRepeatable(value),
    }
  } catch (error) {
    if (!(error instanceof InvalidParamHeader)) throw error
    return error.message
  }
}

function isRepeatable({ annotations }: Readonly<Record<string, unknown>>): boolean {
  return isObject(annotations) && (annotations['idempotentHint'] === true || annotations['readOnlyHint'] === true)
}
