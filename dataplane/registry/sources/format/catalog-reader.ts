import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import { type IncomingVersion, upstreamTime } from '../../catalog/entry.ts'
import { parseExactly } from '../../catalog/json.ts'
import type { Budget } from './budget.ts'
import { type Problem, readDocument } from './read-entry.ts'
import { SourceError } from './source-error.ts'
import { type Part, type Shape, splitJson } from './split-json.ts'

/** The characters of documents in one batch. A batch is in memory while it is written. */
const BATCH_SIZE = 1024 * 1024

type Chunks = AsyncIterable<Buffer> | Iterable<Buffer>

/**
 * Reads the entries of a registry file (`{"$schema", "version", "meta", "data": {"servers": [], "skills": []}}`) or a
 * list response of the registry API v0.1 (`{"servers": [{"server", "_meta"}], "metadata"}`), in batches. Throws a
 * SourceError if the whole is invalid, possibly after some batches, or if nothing is usable.
 */
export async function* readCatalog(chunks: Chunks, budget: Budget): AsyncGenerator<Catalog> {
  const reader = new CatalogReader({ budget })
  yield* reader.read(chunks)
  if (!reader.has('/data/servers') && !reader.has('/servers'))
    throw new SourceError('wrong_shape', reader.isBareList ? BARE_LIST_MESSAGE : NO_CATALOG_MESSAGE)
  const { count, unusable } = reader
  if (unusable !== undefined)
    throw new SourceError(
      'no_usable_entry',
      `none of ${count} entries is usable; ${unusable.pointer}: ${unusable.message}`,
    )
  yield reader.take()
}

/** The beginning of a list, with or without a byte order mark. */
const BARE_LIST = /^(?:\xef\xbb\xbf)?\s*\[/
/** The official registry's seed of 2025-05 is one. Its entries have neither the way to start packages nor a version. */
const BARE_LIST_MESSAGE =
  'it is a bare list: write {"servers": […]} around it; entries of the form of before 2025-09 (version_detail) have to be written as a current server.json'
const NO_CATALOG_MESSAGE =
  'it is neither a registry file ({"version", "meta", "data": {"servers": […]}}) nor a list response ({"servers": [{"server": …}]})'

/** The lists of the registry API: `servers` as in v0.1, `skills` as in our extension of it. */
export type ListKind = 'servers' | 'skills'

/** The parts of a page besides its entries, which are known at the end of the page. */
export interface PageEnd {
  readonly count: number
  /** The first entry that was left out, if none was usable. */
  readonly unusable: Problem | undefined
  readonly nextCursor: string | undefined
  /** The latest time of change on the page up to `until`, in UTC with milliseconds. */
  readonly newest: string | undefined
}

interface PageOptions extends Required<ReaderOptions> {
  readonly kind: ListKind
}

/** Reads a page of a list, in batches as its bytes arrive. Throws a SourceError if it is not such a page. */
export async function* readPage(
  chunks: Chunks,
  { kind, until, budget, names }: PageOptions,
): AsyncGenerator<Catalog, PageEnd> {
  const reader = new CatalogReader({ budget, until, names })
  yield* reader.read(chunks)
  if (!reader.has(`/${kind}`))
    throw new SourceError(
      'wrong_shape',
      `the answer is no list response ({"${kind}": [{"${kind.slice(0, -1)}": …}], "metadata"})`,
    )
  const { metadata, newest, count, unusable } = reader
  const members = isObject(metadata) ? metadata : {}
  // Before 2025-10 it was spelled `next_cursor`.
  const nextCursor = members['nextCursor'] ?? members['next_cursor']
  // A cursor of another type must not be taken for the end of the list.
  if (typeof (nextCursor ?? '') !== 'string')
    throw new SourceError('wrong_shape', '/metadata/nextCursor: must be string')
  yield reader.take()
  return { count, unusable, nextCursor: (nextCursor as string | null | undefined) || undefined, newest }
}

export interface Catalog {
  readonly versions: readonly IncomingVersion[]
  /** The entries that were left out or are odd; only the first thousand of a source. */
  readonly problems: readonly Problem[]
}

/** The lists of a registry file, and those of a list response of the registry API v0.1. */
const SHAPE: Shape = { data: { servers: 'elements', skills: 'elements' }, servers: 'elements', skills: 'elements' }
/** The lists that hold documents, and those that hold documents with their `_meta` beside them: `{server, _meta}`. */
const PLAIN = { '/data/servers': 'server', '/data/skills': 'skill' } as const
const LISTED = { '/servers': 'server', '/skills': 'skill' } as const
type List = keyof typeof PLAIN | keyof typeof LISTED

/** The longest entry that is parsed. A document may have half of it, not counting whitespace. */
const LONGEST_ENTRY = 2 * 1024 * 1024

const MOST_PROBLEMS = 1000

/** This text sorts after all times. */
const LAST_TIME = '9999'

interface ReaderOptions {
  readonly budget: Budget
  /** Later times of change don't count; absent: all count. */
  readonly until?: string
  /** The names on earlier pages, as they are and in lower case; absent: none. */
  readonly names?: SeenVersions
}

/**
 * Reads a registry file or a list response as its bytes arrive. It holds one entry at a time. An invalid entry becomes
 * a problem; an invalid text throws a SourceError.
 */
class CatalogReader {
  /** The latest time of change that counts, in UTC with milliseconds. */
  newest: string | undefined
  metadata: unknown
  count = 0
  isBareList: boolean | undefined
  /** The characters of the documents that `take` would return. */
  #size = 0
  readonly #budget: Budget
  readonly #until: string
  /** The versions so far, since a later one may repeat one of them. */
  readonly #met = new SeenVersions()
  readonly #names: SeenVersions
  /** The pointers of the lists and objects that the text has. */
  readonly #opened = new Set<string>()
  #versions: IncomingVersion[] = []
  #problems: Problem[] = []
  #leftOut = 0
  /** The number of problems so far, including those that were not kept. */
  #told = 0
  #firstLeftOut: Problem | undefined

  constructor({ budget, until = LAST_TIME, names = new SeenVersions() }: ReaderOptions) {
    this.#budget = budget
    this.#names = names
    this.#until = until
  }

  /** Reads a text, and yields its entries in batches. `take` returns the last batch. */
  async *read(chunks: Chunks): AsyncGenerator<Catalog> {
    const splitter = splitJson(SHAPE, LONGEST_ENTRY, (part) => this.#onPart(part))
    for await (const chunk of chunks) {
      this.#budget.addBytes(chunk.length)
      this.isBareList ??= BARE_LIST.test(chunk.toString('latin1', 0, 256))
      withSourceErrors(() => splitter.push(chunk))
      if (this.#size >= BATCH_SIZE) yield this.take()
    }
    withSourceErrors(() => splitter.end())
  }

  take(): Catalog {
    const taken = { versions: this.#versions, problems: this.#problems }
    this.#versions = []
    this.#problems = []
    this.#size = 0
    return taken
  }

  /** The first entry that was left out, if none was usable. */
  get unusable(): Problem | undefined {
    return this.#leftOut === this.count ? this.#firstLeftOut : undefined
  }

  /** Tells whether the text has this list, empty or not. */
  has(list: List): boolean {
    return this.#opened.has(list)
  }

  #onPart(part: Part): void {
    if (part.value === 'opened') this.#open(part.pointer)
    else if (part.list === undefined) this.#readMember(part.pointer, part.value)
    else this.#readElement(part.list, part.pointer, part.value)
  }

  #open(pointer: string): void {
    // Some parsers take the first of two equal members, others the last.
    if (this.#opened.has(pointer)) throw wrongShape(`${pointer} occurs twice`)
    this.#opened.add(pointer)
    if (this.#opened.has('/data') && this.#opened.has('/servers'))
      throw wrongShape('it has data and servers side by side')
  }

  /** Reads a value that is not in a list. */
  #readMember(pointer: string, value: Buffer | 'oversize'): void {
    const read = value === 'oversize' ? undefined : parseValue(value, pointer)
    if (pointer === '/metadata') this.metadata = read
    // Go writes a nil slice as null.
    else if (read === null && (pointer in LISTED || pointer in PLAIN)) this.#open(pointer)
    else if (pointer in PLAIN) throw wrongShape(`${pointer}: must be a list`)
  }

  #readElement(list: string, at: string, bytes: Buffer | 'oversize'): void {
    if (bytes === 'oversize') {
      const message = `must not be longer than ${LONGEST_ENTRY} bytes, including everything beside it`
      this.#enter({ pointer: at, message }, at)
      return
    }
    const value = parseValue(bytes, at)
    if (list in PLAIN) this.#enter(readDocument(PLAIN[list as keyof typeof PLAIN], value, undefined, at), at)
    else this.#readListed(LISTED[list as keyof typeof LISTED], value, at)
  }

  #readListed(type: IncomingVersion['type'], value: unknown, at: string): void {
    // Some lists hold plain documents instead. A document has a name, and the object around it has none.
    if (isObject(value) && !(type in value) && typeof value['name'] === 'string') {
      this.#enter(readDocument(type, value, undefined, at), at)
      return
    }
    const { [type]: document, _meta } = isObject(value) ? value : {}
    this.#noteTime(upstreamTime(_meta))
    this.#enter(readDocument(type, document, _meta, `${at}/${type}`), `${at}/${type}`)
  }

  #noteTime(time: string | undefined): void {
    if (time === undefined || time > this.#until) return
    if (this.newest === undefined || time > this.newest) this.newest = time
  }

  #enter(entry: IncomingVersion | Problem, pointer: string): void {
    this.count++
    this.#budget.addEntry()
    if ('message' in entry) this.#leaveOut(entry)
    else if (!this.#met.add(`${entry.type} ${entry.name} ${entry.version}`))
      this.#leaveOut({ pointer, message: 'repeats an earlier version' })
    else {
      this.#versions.push(entry)
      this.#size += entry.document.length
      this.#tellTwin(entry, pointer)
    }
  }

  /** Reports a name that differs only by case from an earlier one, since people confuse them. */
  #tellTwin({ type, name }: IncomingVersion, pointer: string): void {
    if (!this.#names.add(`${type} ${name}`)) return
    // The second space keeps lower-case names apart from the others, since no name has a space.
    if (this.#names.add(`${type}  ${name.toLowerCase()}`)) return
    this.#keep({ pointer, message: describeTwin(name), served: true })
  }

  #leaveOut(problem: Problem): void {
    this.#firstLeftOut ??= problem
    this.#leftOut++
    this.#keep(problem)
  }

  #keep(problem: Problem): void {
    if (this.#told++ < MOST_PROBLEMS) this.#problems.push(problem)
  }
}

export const describeTwin = (name: string): string =>
  `${name} differs by case alone from a name that came before; both are served`

const wrongShape = (message: string) => new SourceError('wrong_shape', message)

function parseValue(bytes: Buffer, pointer: string): unknown {
  if (!isUtf8(bytes)) throw new SourceError('not_json', `the file is not UTF-8 at ${pointer || 'the beginning'}`)
  try {
    return parseExactly(bytes.toString())
  } catch (error) {
    throw new SyntaxError(`${pointer && `${pointer}: `}${(error as Error).message.slice(0, 200)}`)
  }
}

function withSourceErrors(run: () => void): void {
  try {
    run()
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new SourceError('not_json', `the file is not JSON: ${error.message}`)
  }
}

/** The number of slots at first. It is a power of two and doubles. */
const FIRST_SLOTS = 1024

/**
 * A set of keys that takes 16 bytes for each, a tenth of their texts: it stores 64 bits of their SHA-256. That two of a
 * million keys are taken for the same has a chance of one in forty million.
 */
export class SeenVersions {
  /** A hash table with open addressing, at most half full. 0 marks an empty slot. */
  #slots = new BigUint64Array(FIRST_SLOTS)
  #size = 0

  /** Adds a key; false if it was there before. */
  add(key: string): boolean {
    const digest = hash('sha256', key, 'buffer').readBigUInt64LE() || 1n
    if (!insert(this.#slots, digest)) return false
    if (++this.#size * 2 > this.#slots.length) {
      const larger = new BigUint64Array(this.#slots.length * 2)
      for (const known of this.#slots) if (known !== 0n) insert(larger, known)
      this.#slots = larger
    }
    return true
  }
}

function insert(slots: BigUint64Array, digest: bigint): boolean {
  const last = slots.length - 1
  for (let at = Number(digest & 0xffff_ffffn) & last; ; at = (at + 1) & last) {
    if (slots[at] === digest) return false
    if (slots[at] !== 0n) continue
    slots[at] = digest
    return true
  }
}
