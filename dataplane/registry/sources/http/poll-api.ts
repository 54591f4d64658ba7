import { createHash } from 'node:crypto'
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { backoffDelay } from '../../../retry/backoff.ts'
import { type Budget, createBudget } from '../format/budget.ts'
import { type Catalog, type ListKind, type PageEnd, readPage, SeenVersions } from '../format/catalog-reader.ts'
import { openSpool, readSmallFile, type Spool } from '../format/files.ts'
import type { Problem } from '../format/read-entry.ts'
import type { LocationOf, Pass, ReadChange } from '../format/source.ts'
import { SourceError, type SourceErrorCode } from '../format/source-error.ts'
import { createHttpGet, type HttpGet } from './http-get.ts'

interface ApiCursor {
  /** The time of the last full read; absent if every read is full. */
  readonly fullAt?: number
  readonly servers: ListCursor
  /** `false`: the upstream has no list of skills. Absent: that is not known. */
  readonly skills?: ListCursor | false
}

/** The interval of full reads. Only these notice a version that an upstream dropped without a tombstone. */
const FULL_EVERY_MS = 6 * 60 * 60 * 1000
const A_FILE = 'a file of headers'
/** A page of 100 of the largest documents fits. Pages are kept on the disk, not in memory. */
const LARGEST_PAGE = 104 * 1024 * 1024
/**
 * The errors that mean that the upstream has no list of skills. If it had one before, only `refused` counts: otherwise
 * a proxy's error page would remove all skills.
 */
const NO_SUCH_LIST: readonly SourceErrorCode[] = ['refused', 'forbidden', 'wrong_shape', 'not_json']

/** The statuses with which servers refuse an unknown parameter. */
const UNKNOWN_PARAMETER: ReadonlySet<number | undefined> = new Set([400, 422])

const TRIES = 4
/** If an upstream asks for a wait longer than `longest`, the pass fails and the schedule tries again. */
const RETRY = { first: 1_000, longest: 15_000 }
const TRANSIENT: readonly SourceErrorCode[] = ['unreachable', 'timed_out', 'upstream_failed', 'rate_limited']

type Header = readonly [name: string, value: string]

/**
 * Reads another registry (MCP registry API v0.1) page by page: all of it, or the changes since the last pass, with a
 * full read at intervals. If the upstream has our extension, it reads skills too.
 */
export async function pollApi(location: LocationOf<'api'>, pass: Pass): Promise<ReadChange | undefined> {
  const { signal } = pass
  const before = pass.cursor === undefined ? undefined : (JSON.parse(pass.cursor) as ApiCursor)
  const { maxBytes } = pass
  const httpGet = pass.parts.use(createHttpGet({ ...location, maxBytes: Math.min(LARGEST_PAGE, maxBytes), signal }))
  const headers = await readHeaders(location)
  const pageGetter = () => createPageGetter((url, take) => httpGet(url, headers, take), pass)
  const now = Date.now()
  // The age is negative if our clock was ahead at the last pass.
  const age = now - (before?.fullAt ?? 0)
  let changesOnly = before?.servers.since !== undefined && age >= 0 && age < FULL_EVERY_MS
  // The endpoint may end in a slash.
  const base = `${location.endpoint.replace(/\/+$/, '')}/v0.1`

  const serverList = { kind: 'servers', url: `${base}/servers`, before: before?.servers, maxBytes } as const
  const servers = await pollList({ ...serverList, changesOnly, get: pageGetter() }).catch((error: unknown) => {
    // The upstream gives times of change, but can't filter by them.
    if (!changesOnly || !(error instanceof SourceError) || !UNKNOWN_PARAMETER.has(error.status)) throw error
    changesOnly = false
    return pollList({ ...serverList, changesOnly, get: pageGetter() })
  })
  // An upstream that had no skills is asked for them at full reads only.
  const asksForSkills = before?.skills !== false || (before.fullAt !== undefined && !changesOnly)
  const skills = asksForSkills
    ? await findSkills(
        {
          kind: 'skills',
          url: `${base}/x/portico/skills`,
          before: before?.skills || undefined,
          changesOnly,
          maxBytes,
          get: pageGetter(),
        },
        pass.holdsSkills ? ['refused'] : NO_SUCH_LIST,
      )
    : undefined
  const lists = skills === undefined ? [servers] : [servers, skills]
  if (!lists.some(({ changed }) => changed)) return undefined

  return async function readLists() {
    // Changes add to what the source has.
    const budget = changesOnly ? createBudget(maxBytes, await pass.held()) : createBudget(maxBytes)
    return {
      complete: !changesOnly,
      batches: readBatches(changesOnly ? lists.filter(({ changed }) => changed) : lists, budget),
      cursor() {
        const cursors = { servers: servers.cursor(), skills: skills?.cursor() ?? false }
        const fullAt = cursors.servers.since === undefined ? {} : { fullAt: changesOnly ? before?.fullAt : now }
        return JSON.stringify({ ...fullAt, ...cursors } as ApiCursor)
      },
    }
  }
}

async function* readBatches(lists: readonly PolledList[], budget: Budget) {
  for (const list of lists) yield* list.pages(budget)
}

type GetInto = (url: string, take: (piece: Buffer) => Promise<void>) => ReturnType<HttpGet>

function createPageGetter(get: GetInto, pass: Pass): (url: string) => Promise<FetchedPage> {
  let spool: Spool | undefined

  return async function getPage(url) {
    const file = (spool ??= await openSpool(pass))
    const fetched = await getWithRetries(async () => {
      const digest = createHash('sha256')
      let size = 0
      await file.clear()
      await get(url, (piece) => {
        digest.update(piece)
        size += piece.length
        return file.write(piece)
      })
      return { hash: digest.digest('base64url'), size }
    }, pass.signal)
    return { ...fetched, read: file.read }
  }
}

/** Polls the list of skills; undefined if the upstream has none, which an error with a code in `absent` means. */
async function findSkills(
  options: Parameters<typeof pollList>[0],
  absent: readonly SourceErrorCode[],
): Promise<PolledList | undefined> {
  try {
    return await pollList(options)
  } catch (error) {
    if (options.before === undefined && error instanceof SourceError && absent.includes(error.code)) return undefined
    throw error
  }
}

async function readHeaders({
  headersFile,
  headers = [],
}: LocationOf<'api'>): Promise<Readonly<Record<string, string>>> {
  const own = await Promise.all(
    headers.map(async ({ name, valueFile }) => buildHeader(name, (await readSmallFile(valueFile, A_FILE)).trim())),
  )
  return {
    ...(headersFile === undefined ? {} : parseHeaders(await readSmallFile(headersFile, A_FILE))),
    ...Object.fromEntries(own),
  }
}

/** GETs a page, and retries after transient errors, so that the pages before it are not lost. Throws a SourceError. */
async function getWithRetries<T>(get: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await get()
    } catch (error) {
      if (!(error instanceof SourceError) || tries === TRIES || !TRANSIENT.includes(error.code)) throw error
      const wait = Math.max(backoffDelay(tries - 1, RETRY), error.retryAfterMs ?? 0)
      if (wait > RETRY.longest) throw error
      await delay(wait, undefined, { signal }).catch(() => {
        throw signal.reason
      })
    }
  }
}

function tryHeader(name: string, value: string): Header | undefined {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return [name.toLowerCase(), value]
  } catch {
    // Node refuses the name or value. The caller throws an error that names the file.
    return undefined
  }
}

export function buildHeader(name: string, value: string): Header {
  const header = tryHeader(name, value)
  if (header === undefined) throw new SourceError('file_unreadable', `the file of ${name} holds no header value`)
  return header
}

/**
 * Parses a file of headers, with `Name: value` in each line. Empty lines and those that begin with `#` are ignored.
 * Throws a SourceError that names the line.
 */
export function parseHeaders(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const at = line.indexOf(':')
    const header = tryHeader(line.slice(0, Math.max(at, 0)).trim(), line.slice(at + 1).trim())
    if (header === undefined)
      throw new SourceError('file_unreadable', `line ${index + 1} of the headers file is no header (Name: value)`)
    headers[header[0]] = header[1]
  }
  return headers
}

interface ListCursor {
  /** The latest time of change of the upstream's entries, by its clock; absent if they have none. */
  readonly since?: string
  /** The time by our clock when `since` was first seen; absent once the overlap with it has ended. */
  readonly firstSeenAt?: number
  /** The hash of the last response, if that was the whole list. */
  readonly tail?: string
}

interface PolledList {
  /** True if it may have changed since the cursor. */
  readonly changed: boolean
  /** Reads the entries page by page, which works once. They count against the budget. */
  pages(budget: Budget): AsyncGenerator<Catalog>
  /** Returns the cursor for the next pass, once all pages have been read. */
  cursor(): ListCursor
}

interface ListOptions {
  readonly kind: ListKind
  readonly url: string
  readonly before: ListCursor | undefined
  readonly changesOnly: boolean
  readonly maxBytes: number
  /** Fetches a page into the file of the page before it. Throws a SourceError. */
  readonly get: (url: string) => Promise<FetchedPage>
}

interface FetchedPage {
  readonly hash: string
  readonly size: number
  read(): AsyncIterable<Buffer>
}

/** The first page, read to its end. It has its entries if they are one batch. */
interface FirstPage {
  readonly end: PageEnd
  readonly batch: Catalog | undefined
  readonly names: SeenVersions
}

/**
 * The overlap of two reads. A change may appear later than its time says, since an upstream sets the time before its
 * transaction ends. The overlap may have the whole catalog, so it is left out again after this time.
 */
const OVERLAP_MS = 60_000
const PAGE_SIZE = 100
const MOST_PAGES = 20_000
const MOST_EMPTY_PAGES = 100
/** Cursors are kept in memory to detect a loop, so their length is limited. */
const LONGEST_CURSOR = 4096

/** Polls a list by fetching its first page, or that of the changes. Throws a SourceError. */
async function pollList(options: ListOptions): Promise<PolledList> {
  const { url, before, changesOnly, maxBytes, get } = options
  const since = changesOnly ? before?.since : undefined
  const now = Date.now()
  const overlaps = before?.firstSeenAt !== undefined
  const query = `${url}?limit=${PAGE_SIZE}${since === undefined ? '' : buildChangesQuery(since, overlaps)}`
  const fetched = await get(query)
  // The list was one page, and still is the same page. Only responses to the same query can be compared.
  const isSame = fetched.hash === before?.tail && since === before.since
  // Times after `now` don't count: the upstream's clock may be ahead, or an entry has changed while pages are read, as
  // others may have done on pages that were read already.
  const until = new Date(now).toISOString()
  const read: ReadPage = (page, budget, names) => readPage(page.read(), { kind: options.kind, until, budget, names })
  const first = isSame ? undefined : await readFirstPage((names) => read(fetched, createBudget(maxBytes), names))
  const isOnly = first === undefined || first.end.nextCursor === undefined
  const found = { ...options, query, since, fetched, first, read }
  let newest = since

  function dateNewest(): Pick<ListCursor, 'firstSeenAt'> {
    if (newest !== before?.since) return { firstSeenAt: now }
    return before?.firstSeenAt !== undefined && now - before.firstSeenAt < OVERLAP_MS
      ? { firstSeenAt: before.firstSeenAt }
      : {}
  }

  return {
    changed: !isSame && !(since !== undefined && isOnly && first?.end.count === 0),
    async *pages(budget) {
      newest = yield* readList(found, budget)
    },
    cursor: () => ({
      ...(newest !== undefined && { since: newest, ...dateNewest() }),
      // If a later time was seen, the next pass sends another query.
      ...(isOnly && newest === since && { tail: fetched.hash }),
    }),
  }
}

type ReadPage = (page: FetchedPage, budget: Budget, names: SeenVersions) => AsyncGenerator<Catalog, PageEnd>

/** A list whose first page was fetched, and read unless it was the same as before. */
interface StartedList extends Pick<ListOptions, 'kind' | 'before' | 'get'> {
  readonly query: string
  /** The time since which changes were asked for; undefined: everything was. */
  readonly since: string | undefined
  readonly fetched: FetchedPage
  readonly first: FirstPage | undefined
  readonly read: ReadPage
}

/** Yields the entries of a list, and returns the latest time of change. Throws a SourceError if none is usable. */
async function* readList(list: StartedList, budget: Budget): AsyncGenerator<Catalog, string | undefined> {
  const { kind, before, since } = list
  let newest = since
  let count = 0
  let isUsable = false
  let unusable: Problem | undefined
  for await (const read of readPages(list, budget)) {
    if ('versions' in read) {
      yield read
      continue
    }
    count += read.count
    if (read.count > 0 && read.unusable === undefined) isUsable = true
    unusable ??= read.unusable
    if (read.newest !== undefined && (newest === undefined || read.newest > newest)) newest = read.newest
  }
  // As in a file, this must be a mistake, which would remove all earlier entries. A new list of skills may be another
  // program's.
  if (!isUsable && unusable !== undefined && since === undefined && (kind === 'servers' || before !== undefined))
    throw new SourceError(
      'no_usable_entry',
      `none of ${count} ${kind} is usable; ${unusable.pointer}: ${unusable.message}`,
    )
  return newest
}

/** Yields, page by page, the entries and the end of the page. Throws a SourceError if the pages don't end. */
async function* readPages(list: StartedList, budget: Budget): AsyncGenerator<Catalog | PageEnd> {
  const { query, get, read } = list
  const seen = new Set<string>()
  // If the first page is read again, its names must not count as known.
  const names = list.first?.batch === undefined ? new SeenVersions() : list.first.names
  let end = yield* readFirst(list, budget, names)
  let empty = 0
  for (let count = 1; count <= MOST_PAGES; count++) {
    yield end
    const cursor = end.nextCursor
    if (cursor === undefined) return
    empty = end.count === 0 ? empty + 1 : 0
    if (empty > MOST_EMPTY_PAGES)
      throw new SourceError('endless', `the upstream gives more than ${MOST_EMPTY_PAGES} pages with nothing on them`)
    if (cursor.length > LONGEST_CURSOR)
      throw new SourceError('wrong_shape', `/metadata/nextCursor: has more than ${LONGEST_CURSOR} characters`)
    if (seen.has(cursor))
      throw new SourceError('endless', 'the upstream repeats a cursor, so that its pages would not end')
    seen.add(cursor)
    end = yield* read(await get(`${query}&cursor=${encodeURIComponent(cursor)}`), budget, names)
  }
  throw new SourceError('endless', `the upstream has more than ${MOST_PAGES} pages`)
}

async function* readFirst(
  { first, fetched, read }: StartedList,
  budget: Budget,
  names: SeenVersions,
): AsyncGenerator<Catalog, PageEnd> {
  if (first?.batch === undefined) return yield* read(fetched, budget, names)
  budget.addBytes(fetched.size)
  yield first.batch
  for (let left = first.end.count; left > 0; left--) budget.addEntry()
  return first.end
}

/** Reads a page to its end. A single batch is kept, so that the page need not be read again. */
async function readFirstPage(read: (names: SeenVersions) => AsyncGenerator<Catalog, PageEnd>): Promise<FirstPage> {
  const names = new SeenVersions()
  const page = read(names)
  let batch: Catalog | undefined
  for (let batches = 0; ; batches++) {
    const { done, value } = await page.next()
    if (done) return { end: value, batch, names }
    batch = batches === 0 ? value : undefined
  }
}

function buildChangesQuery(since: string, overlaps: boolean): string {
  const from = new Date(Date.parse(since) - (overlaps ? OVERLAP_MS : 0)).toISOString()
  return `&updated_since=${encodeURIComponent(from)}&include_deleted=true`
}
