import { isUtf8 } from 'node:buffer'
import { isObject } from '../../../../crds/shared/json.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { upstreamTime } from '../../catalog/official-meta.ts'
import { parseExactly } from '../../catalog/parse-exactly.ts'
import type { Budget } from './budget.ts'
import { MetVersions } from './met-versions.ts'
import { type Problem, readDocument } from './read-entry.ts'
import { SourceError } from './source-error.ts'
import { type JsonSplitter, type Part, type Shape, splitJson } from './split-json.ts'

export interface Catalog {
  readonly versions: readonly IncomingVersion[]
  /** What was left out; the first of many. */
  readonly problems: readonly Problem[]
}

/** A registry file, and a list response of the registry API v0.1. */
const SHAPE: Shape = { data: { servers: 'elements', skills: 'elements' }, servers: 'elements', skills: 'elements' }
/** Lists of documents, and lists of documents with what is told of them, if anything is: `{server, _meta}`. */
const PLAIN = { '/data/servers': 'server', '/data/skills': 'skill' } as const
const LISTED = { '/servers': 'server', '/skills': 'skill' } as const
type List = keyof typeof PLAIN | keyof typeof LISTED

/** The longest entry that is looked at: documents are at most half of it, without what only makes them readable. */
const LONGEST_ENTRY = 2 * 1024 * 1024

/** Of what was left out so many are told. */
const MOST_PROBLEMS = 1000

const LAST = '9999'

/** What a list response tells besides its entries. */
export interface Listed {
  /** The latest time of change that counts, in UTC with milliseconds. */
  newest: string | undefined
  /** The `metadata` of the list. */
  metadata: unknown
}

/**
 * Reads a registry file or a list response as its bytes come; of the text no more than one entry is held. One bad entry
 * does not take the others down: it is left out and told of. Throws a SourceError where the whole won't do.
 */
interface CatalogReader {
  push(chunk: Buffer): void
  /** The text has ended. */
  end(): void
  /** Characters of the documents that `take` would give. */
  readonly size: number
  /** What was read since the last call. */
  take(): Catalog
  /** Of a list response. */
  readonly listed: Readonly<Listed>
  /** How many entries there were, those that were left out among them. */
  readonly count: number
  /** What was left out first, where nothing was usable. */
  readonly unusable: Problem | undefined
  /** Whether the text has this list, empty or not. */
  has(list: List): boolean
}

interface ReaderOptions {
  /** Each entry counts against it. */
  readonly budget: Budget
  /** Of the times of change those up to this count; absent: all. */
  readonly until?: string
}

export function createCatalogReader({ budget, until = LAST }: ReaderOptions): CatalogReader {
  /** Which versions there were; the text may have one again much later. */
  const known = new MetVersions()
  const opened = new Set<string>()
  const listed: Listed = { newest: undefined, metadata: undefined }
  let versions: IncomingVersion[] = []
  let problems: Problem[] = []
  let size = 0
  let count = 0
  let leftOut = 0
  let firstLeftOut: Problem | undefined

  function leaveOut(problem: Problem): void {
    firstLeftOut ??= problem
    if (leftOut++ < MOST_PROBLEMS) problems.push(problem)
  }

  function enter(entry: IncomingVersion | Problem, pointer: string): void {
    count++
    budget.addEntry()
    if ('message' in entry) leaveOut(entry)
    else if (!known.add(`${entry.type} ${entry.name} ${entry.version}`))
      leaveOut({ pointer, message: 'is a version that came before' })
    else {
      versions.push(entry)
      size += entry.document.length
    }
  }

  function onPart({ pointer, list, value }: Part): void {
    if (value === 'opened') open(pointer)
    else if (list === undefined) {
      const read = value === 'oversize' ? undefined : parseValue(value, pointer)
      if (pointer === '/metadata') listed.metadata = read
      else if (pointer in PLAIN) throw wrongShape(`${pointer}: must be a list`)
    } else if (value === 'oversize')
      enter({ pointer, message: `must not be longer than ${LONGEST_ENTRY} bytes with all that is beside it` }, pointer)
    else readElement(list, parseValue(value, pointer), pointer)
  }

  function open(pointer: string): void {
    // Which of two counts would hang on who reads it.
    if (opened.has(pointer)) throw wrongShape(`${pointer} stands in it twice`)
    opened.add(pointer)
    if (opened.has('/data') && opened.has('/servers')) throw wrongShape('it has data and servers side by side')
  }

  function readElement(list: string, value: unknown, at: string): void {
    if (list in PLAIN) {
      enter(readDocument(PLAIN[list as keyof typeof PLAIN], value, undefined, at), at)
      return
    }
    const type = LISTED[list as keyof typeof LISTED]
    // People write the documents themselves into the list; one has a name, what is told of it has none.
    if (isObject(value) && !(type in value) && typeof value['name'] === 'string') {
      enter(readDocument(type, value, undefined, at), at)
      return
    }
    const { [type]: document, _meta } = isObject(value) ? value : {}
    const time = upstreamTime(_meta)
    if (time !== undefined && time <= until && (listed.newest === undefined || time > listed.newest))
      listed.newest = time
    enter(readDocument(type, document, _meta, `${at}/${type}`), `${at}/${type}`)
  }

  const splitter = splitJson(SHAPE, LONGEST_ENTRY, onPart)
  return {
    push: (chunk) => asSourceError(splitter, (json) => json.push(chunk)),
    end: () => asSourceError(splitter, (json) => json.end()),
    get size() {
      return size
    },
    take() {
      const taken = { versions, problems }
      versions = []
      problems = []
      size = 0
      return taken
    },
    listed,
    get count() {
      return count
    },
    get unusable() {
      return leftOut === count ? firstLeftOut : undefined
    },
    has: (list) => opened.has(list),
  }
}

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
