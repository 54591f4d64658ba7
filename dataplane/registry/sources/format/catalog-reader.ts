import { isUtf8 } from 'node:buffer'
import { isObject } from '../../../../crds/settings/json.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { parseExactly } from '../../catalog/json.ts'
import { upstreamTime } from '../../catalog/official-meta.ts'
import type { Budget } from './budget.ts'
import { type Problem, readDocument } from './read-entry.ts'
import { SeenVersions } from './seen-versions.ts'
import { SourceError } from './source-error.ts'
import { type JsonSplitter, type Part, type Shape, splitJson } from './split-json.ts'

export interface Catalog {
  readonly versions: readonly IncomingVersion[]
  /** The first of the entries that were left out or are odd. */
  readonly problems: readonly Problem[]
}

/** A registry file, and a list response of the registry API v0.1. */
const SHAPE: Shape = { data: { servers: 'elements', skills: 'elements' }, servers: 'elements', skills: 'elements' }
/** The pointers of lists of documents, and of lists of documents with their `_meta` beside them: `{server, _meta}`. */
const PLAIN = { '/data/servers': 'server', '/data/skills': 'skill' } as const
const LISTED = { '/servers': 'server', '/skills': 'skill' } as const
type List = keyof typeof PLAIN | keyof typeof LISTED

/** The longest entry that is parsed. Documents are at most half of it, not counting whitespace. */
const LONGEST_ENTRY = 2 * 1024 * 1024

/** The most problems that are kept, the first ones. */
const MOST_PROBLEMS = 1000

const LAST = '9999'

/** The parts of a list response besides its entries. */
export interface Listed {
  /** The latest counted time of change, in UTC with milliseconds. */
  newest: string | undefined
  metadata: unknown
}

interface ReaderOptions {
  readonly budget: Budget
  /** Ignores later times of change; absent: all count. */
  readonly until?: string
  /** The names of either type on earlier pages, also in lower case; absent: none. */
  readonly names?: SeenVersions
}

/**
 * Reads a registry file or a list response as its bytes arrive, and holds at most one entry. A bad entry becomes a
 * problem. Throws a SourceError if the whole is invalid.
 */
export class CatalogReader {
  readonly listed: Listed = { newest: undefined, metadata: undefined }
  count = 0
  /** The characters of the documents that `take` would return. */
  size = 0
  readonly #budget: Budget
  readonly #until: string
  readonly #splitter: JsonSplitter
  /** The versions that were met; the text may repeat one much later. */
  readonly #met = new SeenVersions()
  readonly #names: SeenVersions
  readonly #opened = new Set<string>()
  #versions: IncomingVersion[] = []
  #problems: Problem[] = []
  #leftOut = 0
  /** The number of problems so far, including those that were not kept. */
  #told = 0
  #firstLeftOut: Problem | undefined

  constructor({ budget, until = LAST, names = new SeenVersions() }: ReaderOptions) {
    this.#budget = budget
    this.#names = names
    this.#until = until
    this.#splitter = splitJson(SHAPE, LONGEST_ENTRY, (part) => this.#onPart(part))
  }

  push(chunk: Buffer): void {
    asSourceError(this.#splitter, (json) => json.push(chunk))
  }

  end(): void {
    asSourceError(this.#splitter, (json) => json.end())
  }

  take(): Catalog {
    const taken = { versions: this.#versions, problems: this.#problems }
    this.#versions = []
    this.#problems = []
    this.size = 0
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
    // Parsers differ in which of two equal members they take.
    if (this.#opened.has(pointer)) throw wrongShape(`${pointer} occurs twice`)
    this.#opened.add(pointer)
    if (this.#opened.has('/data') && this.#opened.has('/servers'))
      throw wrongShape('it has data and servers side by side')
  }

  /** Reads a value that is not in a list. */
  #readMember(pointer: string, value: Buffer | 'oversize'): void {
    const read = value === 'oversize' ? undefined : parseValue(value, pointer)
    if (pointer === '/metadata') this.listed.metadata = read
    // Go programs write null for a nil list.
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
    // People put the bare documents into the list. A document has a name; its wrapper has none.
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
    const { newest } = this.listed
    if (newest === undefined || time > newest) this.listed.newest = time
  }

  #enter(entry: IncomingVersion | Problem, pointer: string): void {
    this.count++
    this.#budget.addEntry()
    if ('message' in entry) this.#leaveOut(entry)
    else if (!this.#met.add(`${entry.type} ${entry.name} ${entry.version}`))
      this.#leaveOut({ pointer, message: 'repeats an earlier version' })
    else {
      this.#versions.push(entry)
      this.size += entry.document.length
      this.#tellTwin(entry, pointer)
    }
  }

  /** Reports a name that differs by case alone from an earlier one, since people confuse them. */
  #tellTwin({ type, name }: IncomingVersion, pointer: string): void {
    if (!this.#names.add(`${type} ${name}`)) return
    // No name has a space.
    if (this.#names.add(`${type}  ${name.toLowerCase()}`)) return
    this.#keep({ pointer, message: twinMessage(name), served: true })
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

export const twinMessage = (name: string): string =>
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

function asSourceError(splitter: JsonSplitter, run: (splitter: JsonSplitter) => void): void {
  try {
    run(splitter)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new SourceError('not_json', `the file is not JSON: ${error.message}`)
  }
}
