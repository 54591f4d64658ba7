import { type Budget, createBudget } from '../format/budget.ts'
import type { Catalog } from '../format/catalog-reader.ts'
import { type ListKind, type PageEnd, readPage } from '../format/parse.ts'
import type { Problem } from '../format/read-entry.ts'
import { SeenVersions } from '../format/seen-versions.ts'
import { SourceError } from '../format/source-error.ts'

export interface ListCursor {
  /** The latest time of change in the upstream's entries, by its clock; absent if they have none. */
  readonly since?: string
  /** The time (our clock) when `since` was first seen; absent once late changes have been read. */
  readonly firstSeenAt?: number
  /** The hash of the last read, if that was one page. */
  readonly tail?: string
}

export interface PolledList {
  /** True if it may hold anything new since the cursor. */
  readonly changed: boolean
  /** Reads its entries, page by page, once. All of them count against the budget. */
  pages(budget: Budget): AsyncGenerator<Catalog>
  /** Returns the cursor for the next pass. It is called after the last page. */
  cursor(): ListCursor
}

export interface ListOptions {
  readonly kind: ListKind
  readonly url: string
  readonly before: ListCursor | undefined
  /** True if only the changes since the cursor are read. */
  readonly changesOnly: boolean
  /** The most bytes that the source may have. */
  readonly maxBytes: number
  /** Fetches a page, into the same file as the one before it. Throws a SourceError. */
  readonly get: (url: string) => Promise<FetchedPage>
}

export interface FetchedPage {
  readonly hash: string
  readonly size: number
  read(): AsyncIterable<Buffer>
}

/** The first page after reading: its end, and its entries if they are one batch. */
interface FirstPage {
  readonly end: PageEnd
  readonly batch: Catalog | undefined
  readonly names: SeenVersions
}

/**
 * The overlap of two reads: a change may appear in an upstream later than its time says, while its transaction runs.
 * The overlap may be the whole catalog, so it ends after this time.
 */
const OVERLAP_MS = 60_000
const PAGE_SIZE = 100
const MOST_PAGES = 20_000
/** The most empty pages in a row. */
const MOST_EMPTY_PAGES = 100
/** Each cursor is kept, to detect a loop. */
const LONGEST_CURSOR = 4096

/** Polls a list: fetches the first page of all of it, or of the changes. Throws a SourceError. */
export async function pollList(options: ListOptions): Promise<PolledList> {
  const { url, before, changesOnly, maxBytes, get } = options
  const since = changesOnly ? before?.since : undefined
  const now = Date.now()
  const overlaps = before?.firstSeenAt !== undefined
  const query = `${url}?limit=${PAGE_SIZE}${since === undefined ? '' : changesQuery(since, overlaps)}`
  const fetched = await get(query)
  // The list was one page then, and is the same page now. Only responses to the same query are compared.
  const isSame = fetched.hash === before?.tail && since === before.since
  // A later time tells nothing about changes still to come: its clock may be ahead, or the change was made during the
  // paging.
  const read = pageReader(options.kind, new Date(now).toISOString())
  const first = isSame ? undefined : await readFirstPage((names) => read(fetched, createBudget(maxBytes), names))
  const isOnly = first === undefined || first.end.nextCursor === undefined
  const found = { ...options, query, since, fetched, first, read }
  let newest = since

  function timeOfNewest(): Pick<ListCursor, 'firstSeenAt'> {
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
      ...(newest !== undefined && { since: newest, ...timeOfNewest() }),
      // The next pass sends the same query only if no later time was seen.
      ...(isOnly && newest === since && { tail: fetched.hash }),
    }),
  }
}

type ReadPage = (page: FetchedPage, budget: Budget, names: SeenVersions) => AsyncGenerator<Catalog, PageEnd>

function pageReader(kind: ListKind, until: string): ReadPage {
  return (page, budget, names) => readPage(page.read(), { kind, until, budget, names })
}

/** A list whose first page was fetched, and read if it may be new. */
interface StartedList extends Pick<ListOptions, 'kind' | 'before' | 'get'> {
  readonly query: string
  /** The lower limit for times of change in the request. */
  readonly since: string | undefined
  readonly fetched: FetchedPage
  readonly first: FirstPage | undefined
  readonly read: ReadPage
}

/** Yields the entries of a list, and returns the latest time of change. Throws a SourceError if no entry is usable. */
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
  // This counts as a mistake, as in a file: all earlier entries would go. A new list may belong to something else.
  if (!isUsable && unusable !== undefined && since === undefined && (kind === 'servers' || before !== undefined))
    throw new SourceError(
      'no_usable_entry',
      `none of ${count} ${kind} is usable; ${unusable.pointer}: ${unusable.message}`,
    )
  return newest
}

/** Yields the entries of each page and then its end, page after page. Throws a SourceError if the pages don't end. */
async function* readPages(list: StartedList, budget: Budget): AsyncGenerator<Catalog | PageEnd> {
  const { query, get, read } = list
  const seen = new Set<string>()
  // A first page that is read a second time has none of its names yet.
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
    if (seen.has(cursor)) throw new SourceError('endless', 'the upstream gives a cursor for the second time')
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

/** Reads a page to its end. If it is a single batch, the batch is kept, so that it need not be read again. */
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

function changesQuery(since: string, overlaps: boolean): string {
  const from = new Date(Date.parse(since) - (overlaps ? OVERLAP_MS : 0)).toISOString()
  return `&updated_since=${encodeURIComponent(from)}&include_deleted=true`
}
