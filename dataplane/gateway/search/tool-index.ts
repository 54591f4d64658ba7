import { hash } from 'node:crypto'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import { isObject } from '../../../crds/settings/json.ts'
import { listTexts } from '../access/subjects.ts'
import type { Hit } from './hits.ts'

interface Indexed {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly arguments: string
}

/** The most characters of a description, and the most arguments of a tool, that are indexed. */
const LONGEST = 4_000
const MOST_ARGUMENTS = 100
/** The milliseconds of indexing after which requests get a turn. */
const TURN_MS = 5
/** The memory of an empty index, and of a tool in it besides its text. */
const INDEX_BYTES = 64 * 1024
const TOOL_BYTES = 384
/** The most characters of a tool's meaning: models read the first few hundred words. */
const LONGEST_MEANING = 2_000

/** The most words of a query that are used. */
const MOST_WORDS = 32
const LONGEST_WORD = 64
const WORD = /[\p{L}\p{N}\p{M}]+/gu
/** Matches the beginning of a word inside a name: getWeather, HTTPServer. */
const INNER = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

export class ToolIndex {
  readonly tools: readonly string[]
  /** The digests of the tools' meanings. Tools with the same meaning share a vector. */
  readonly digests: string[] = []
  bytes = INDEX_BYTES
  readonly #database = new DatabaseSync(':memory:')
  readonly #find: StatementSync

  private constructor(tools: readonly string[]) {
    this.tools = tools
    this.#database.exec(
      "create virtual table tool using fts5(name, title, description, arguments, content='', tokenize='porter unicode61 remove_diacritics 2')",
    )
    // A word in a name weighs more than one in a description, where most words are.
    this.#find = this.#database.prepare(
      'select rowid as tool, -bm25(tool, 8, 6, 3, 1) as score from tool where tool match ? order by bm25(tool, 8, 6, 3, 1), rowid limit ?',
    )
  }

  /** Indexes a list of tools, given as the result of `tools/list`; requests are served meanwhile. */
  static async build(list: Buffer): Promise<ToolIndex> {
    const index = new ToolIndex(listTexts(list, 'tools'))
    await index.#fill()
    return index
  }

  get isClosed(): boolean {
    return !this.#database.isOpen
  }

  async #fill(): Promise<void> {
    const insert = this.#database.prepare(
      'insert into tool (rowid, name, title, description, arguments) values (?, ?, ?, ?, ?)',
    )
    let since = performance.now()
    for (const [number, text] of this.tools.entries()) {
      if (performance.now() - since > TURN_MS) {
        await setImmediate()
        since = performance.now()
      }
      const indexed = readIndexed(text)
      const { name, title, description, arguments: named } = indexed
      this.digests.push(hash('sha256', meaningOf(indexed), 'base64url'))
      insert.run(number, splitWords(name), title, description, named)
      this.bytes += TOOL_BYTES + text.length + 2 * (name.length + title.length + description.length + named.length)
    }
  }

  /** Returns the tools that have words of a text, the best first, at most `most`. */
  find(text: string, most: number): readonly Hit[] {
    const query = wordQuery(text)
    return query === undefined ? [] : (this.#find.all(query, most) as unknown as Hit[])
  }

  /** Returns a tool's purpose in the words for the search by meaning; empty if it has none. */
  meaningOf(tool: number): string {
    return meaningOf(readIndexed(this.tools[tool] as string))
  }

  close(): void {
    this.#database.close()
  }
}

/** Reads the indexed parts of a tool, given as JSON text. Backends may put any value anywhere. */
export function readIndexed(text: string): Indexed {
  const tool: unknown = JSON.parse(text)
  if (!isObject(tool)) return { name: '', title: '', description: '', arguments: '' }
  const { name, title, annotations, description, inputSchema } = tool
  const properties = isObject(inputSchema) ? inputSchema['properties'] : undefined
  return {
    name: cutText(name),
    title: cutText(title ?? (isObject(annotations) ? annotations['title'] : undefined)),
    description: cutText(description),
    arguments: isObject(properties) ? joinArguments(properties) : '',
  }
}

const meaningOf = ({ name, title, description }: Indexed): string =>
  [splitWords(name), title, description]
    .filter((part) => part !== '')
    .join('\n')
    .slice(0, LONGEST_MEANING)
    .toWellFormed()

const joinArguments = (properties: Readonly<Record<string, unknown>>): string =>
  Object.keys(properties).slice(0, MOST_ARGUMENTS).map(splitWords).join(' ').slice(0, LONGEST)

const cutText = (value: unknown): string => (typeof value === 'string' ? value.slice(0, LONGEST) : '')

/** Returns a name and the words in it: an index does not split at capitals. */
function splitWords(name: string): string {
  const apart = name.replace(INNER, ' ')
  return apart === name ? name : `${name} ${apart}`
}

/**
 * Builds a query of FTS5 (https://sqlite.org/fts5.html, section 3) of the words in a text, each in quotes; undefined if
 * it has none.
 */
export function wordQuery(text: string): string | undefined {
  const words = new Set<string>()
  for (const [word] of splitWords(text).matchAll(WORD)) {
    words.add(`"${word.slice(0, LONGEST_WORD)}"`)
    if (words.size === MOST_WORDS) break
  }
  return words.size === 0 ? undefined : [...words].join(' OR ')
}
