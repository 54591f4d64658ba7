import { sql } from 'kysely'
import { PublicError } from '../../../server/errors.ts'
import type { Database } from '../database/schema.ts'
import { numberLists, prepareStatement } from '../database/statement.ts'
import {
  type FoundRow,
  LARGE_BYTES,
  type LargeTexts,
  parseLargeTexts,
  revisionColumn,
  type VersionRow,
} from '../database/version-columns.ts'

/** The most bytes of versions on one page. A larger version has a page to itself. */
export const PAGE_BYTES = 8 * 1024 * 1024
/** A version takes so many bytes besides its texts. */
const AROUND_BYTES = 512
/** The most pages with large texts that are read at a time. Each may be in memory three times until it is sent. */
const AT_ONCE = 2
/** The most pages that wait for their turn. More are refused. */
const MOST_WAITING = 64

export interface VersionPage {
  readonly rows: readonly VersionRow[]
  readonly more: boolean
}

interface Texts extends Pick<VersionRow, 'document' | 'status_message' | 'other_meta' | 'revision'> {
  readonly version_id: number
}

interface PageOptions {
  readonly limit: number
  readonly registry: number
  /** True for the last attempt, in which changes meanwhile are accepted. */
  readonly isLast: boolean
  readonly hold: ReserveMemory | undefined
}

/** Reserves memory for a page, before its large texts are read. Throws if there is not enough. */
export type ReserveMemory = (bytes: number) => void

/** Makes a page of versions that were found; undefined if the registry has changed since then. */
export type MakePage = (found: readonly FoundRow[], options: PageOptions) => Promise<VersionPage | undefined>

/**
 * Creates the function that makes a page of versions, up to the requested number and `PAGE_BYTES`. It reads their large
 * texts.
 */
export function createMakePage(database: Database): MakePage {
  const lists = numberLists(database)
  const readTexts = prepareStatement<{ versions: unknown; registry: number }, Texts>(
    database,
    (value) => sql<Texts>`
      select v.id as version_id, d.text as document, v.status_message, v.other_meta, ${revisionColumn(value)}
      from ${lists.table(value('versions'))} c
        cross join entry_version v
        cross join document d
      where v.id = c.value and d.id = v.document_id`,
  )
  const runLimited = createLimiter(AT_ONCE)

  return async function makePage(found, { limit, registry, isLast, hold }) {
    const { count, bytes, large } = fitPage(found, limit)
    const rows = count < found.length ? found.slice(0, count) : found
    const more = count < found.length
    if (large.length === 0) {
      hold?.(bytes)
      return { rows, more }
    }

    const versions = lists.value(large.map(({ version }) => version))
    const texts = await runLimited(() => {
      hold?.(bytes)
      return readTexts({ versions, registry })
    })
    const changed = texts.length < large.length || texts.some(({ revision }) => revision !== rows[0]?.revision)
    if (changed && !isLast) return undefined
    const byId = new Map(texts.map(({ version_id, ...its }) => [version_id, its]))
    const whole = rows.flatMap((row) => {
      const its = parseLargeTexts(row)
      if (its === undefined) return row
      const read = byId.get(its.version)
      return read === undefined ? [] : { ...row, ...read }
    })
    return { rows: whole, more }
  }
}

export function estimatePageBytes(row: FoundRow): number {
  return AROUND_BYTES + (parseLargeTexts(row)?.bytes ?? countSmallBytes(row))
}

function countSmallBytes({ document, status_message, other_meta }: FoundRow): number {
  return Buffer.byteLength(document) + Buffer.byteLength(status_message ?? '') + Buffer.byteLength(other_meta ?? '')
}

/** So many small versions always fit. For them characters are counted instead of bytes, which is faster. */
const ALWAYS_FITTING = Math.floor(PAGE_BYTES / (LARGE_BYTES + AROUND_BYTES))

/** Returns how many rows fit a page (at least one), their bytes, and the references to their large texts. */
function fitPage(found: readonly FoundRow[], limit: number) {
  const smallBytes = found.length > ALWAYS_FITTING ? countSmallBytes : countCharacters
  const large: LargeTexts[] = []
  let bytes = 0
  for (let index = 0; index < found.length; index++) {
    const row = found[index] as FoundRow
    const its = parseLargeTexts(row)
    const more = AROUND_BYTES + (its?.bytes ?? smallBytes(row))
    if (index === limit || (bytes + more > PAGE_BYTES && index > 0)) return { count: index, bytes, large }
    bytes += more
    if (its !== undefined) large.push(its)
  }
  return { count: found.length, bytes, large }
}

function countCharacters({ document, status_message, other_meta }: FoundRow): number {
  return document.length + (status_message?.length ?? 0) + (other_meta?.length ?? 0)
}

/** Creates the function that runs so many tasks at a time. It throws a PublicError if too many wait. */
function createLimiter(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let running = 0
  return async function runLimited(work) {
    if (waiting.length >= MOST_WAITING)
      throw new PublicError('unavailable', {
        message: 'Too many large documents are being read; try again.',
        headers: { 'retry-after': '1' },
      })
    if (running === most) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}

export interface ReadAttempt {
  readonly rows: readonly FoundRow[]
  /** True if the registry changed while the rows were read. */
  readonly torn: boolean
}

/** If the registry keeps changing during a read, the last of these attempts counts. */
const ATTEMPTS = 5

/**
 * Finds versions and makes something of them. Repeats both if the registry has changed meanwhile, in which case `find`
 * returns `torn` or `make` undefined.
 */
export async function readConsistently<T>(
  find: () => Promise<ReadAttempt>,
  make: (rows: readonly FoundRow[], isLast: boolean) => Promise<T | undefined>,
): Promise<T> {
  for (let left = ATTEMPTS; ; left--) {
    const { rows, torn } = await find()
    if (torn && left > 0) continue
    const made = await make(rows, left === 0)
    if (made !== undefined) return made
  }
}
