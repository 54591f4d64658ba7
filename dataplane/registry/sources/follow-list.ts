import { hash } from 'node:crypto'
import { type ListKind, type Page, parsePage } from './parse.ts'
import type { Problem } from './read-entry.ts'
import { SourceError } from './source-error.ts'

/** How far a list of another registry was followed. */
export interface ListMark {
  /** The latest time of change that the upstream told, by its own clock; absent where it tells none. */
  readonly since?: string
  /** When that was first told, by our clock; absent once all that may have come late with it has been read. */
  readonly toldAt?: number
  /** Hash of what was read last where that was one page. */
  readonly tail?: string
}

/** A list whose first page has been fetched. */
export interface FoundList {
  /** Whether it may hold anything that it did not hold at the mark. */
  readonly changed: boolean
  /** Asked for once. */
  pages(): AsyncGenerator<Page>
  /** The mark for the next pass; asked for after the last page. */
  mark(): ListMark
}

export interface ListOptions {
  readonly kind: ListKind
  readonly url: string
  readonly before: ListMark | undefined
  /** Whether what has changed since the mark will do. */
  readonly changesOnly: boolean
  /** Throws a SourceError. */
  readonly get: (url: string) => Promise<Buffer>
}

/**
 * A change may show up in an upstream later than its time says, while the transaction that makes it runs: so long what is
 * a little older than the latest is asked for too, and no longer, since it may be the whole catalog.
 */
const OVERLAP_MS = 60_000
const PAGE_SIZE = 100
const MOST_PAGES = 20_000

/** Looks at a list: all of it, or what has changed where the upstream tells times of change. Throws a SourceError. */
export async function followList({ kind, url, before, changesOnly, get }: ListOptions): Promise<FoundList> {
  const since = changesOnly ? before?.since : undefined
  const now = Date.now()
  // A later time says nothing of what is still to come: it is of a clock that runs ahead, or of a change that was made
  // while the list was paged through, when others may have been made to pages that had been read.
  const until = new Date(now).toISOString()
  const overlaps = before?.toldAt !== undefined
  const query = `${url}?limit=${PAGE_SIZE}${since === undefined ? '' : changesQuery(since, overlaps)}`
  const firstBytes = await get(query)
  const firstHash = hash('sha256', firstBytes, 'base64url')
  // It was one page then, and it is the same one now; what has changed is no answer to what there is, though it look so.
  const isSame = firstHash === before?.tail && since === before.since
  const parse = (bytes: Buffer) => parsePage(bytes, kind, until)
  const first = isSame ? undefined : parse(firstBytes)
  const isOnly = first === undefined || first.nextCursor === undefined
  let newest = since

  async function* pages() {
    let count = 0
    let isUsable = false
    let unusable: Problem | undefined
    for await (const page of readPages(first ?? parse(firstBytes))) {
      count += page.count
      if (page.versions.length > 0) isUsable = true
      unusable ??= page.problems[0]
      if (page.newest !== undefined && (newest === undefined || page.newest > newest)) newest = page.newest
      yield page
    }
    // Taken for a mistake, as in a file: all that came before would go. A list that is new may be another's.
    if (!isUsable && unusable !== undefined && since === undefined && (kind === 'servers' || before !== undefined))
      throw new SourceError(
        'no_usable_entry',
        `none of ${count} ${kind} is usable; ${unusable.pointer}: ${unusable.message}`,
      )
  }

  async function* readPages(from: Page): AsyncGenerator<Page> {
    const seen = new Set<string>()
    let page = from
    for (let count = 1; count <= MOST_PAGES; count++) {
      yield page
      const cursor = page.nextCursor
      if (cursor === undefined) return
      if (seen.has(cursor)) throw new SourceError('endless', 'the upstream gives a cursor for the second time')
      seen.add(cursor)
      page = parse(await get(`${query}&cursor=${encodeURIComponent(cursor)}`))
    }
    throw new SourceError('endless', `the upstream has more than ${MOST_PAGES} pages`)
  }

  function toldAt(): Pick<ListMark, 'toldAt'> {
    if (newest !== before?.since) return { toldAt: now }
    return overlaps && now - before.toldAt < OVERLAP_MS ? { toldAt: before.toldAt } : {}
  }

  return {
    changed: !isSame && !(since !== undefined && isOnly && first?.count === 0),
    pages,
    mark: () => ({
      ...(newest !== undefined && { since: newest, ...toldAt() }),
      // The next pass asks the same again only where no later time was seen.
      ...(isOnly && newest === since && { tail: firstHash }),
    }),
  }
}

function changesQuery(since: string, overlaps: boolean): string {
  const from = new Date(Date.parse(since) - (overlaps ? OVERLAP_MS : 0)).toISOString()
  return `&updated_since=${encodeURIComponent(from)}&include_deleted=true`
}
