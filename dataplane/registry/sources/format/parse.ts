import { isObject } from '../../../../crds/settings/json.ts'
import type { Budget } from './budget.ts'
import { type Catalog, CatalogReader } from './catalog-reader.ts'
import type { Problem } from './read-entry.ts'
import type { SeenVersions } from './seen-versions.ts'
import { SourceError } from './source-error.ts'

/** Characters of documents that are handed on together: what memory holds while it is written. */
const BATCH = 1024 * 1024

type Chunks = AsyncIterable<Buffer> | Iterable<Buffer>

/**
 * The entries of a registry file (`{"$schema", "version", "meta", "data": {"servers": [], "skills": []}}`) or of a list
 * response of the registry API v0.1 (`{"servers": [{"server", "_meta"}], "metadata"}`, or the documents alone), in batches
 * as its bytes come.
 *
 * Throws a SourceError where the whole won't do, after batches may have been given; a file in which nothing is usable is
 * taken for a mistake rather than for an empty catalog.
 */
export async function* readCatalog(chunks: Chunks, budget: Budget): AsyncGenerator<Catalog> {
  const reader = new CatalogReader({ budget })
  let isBareList: boolean | undefined
  for await (const chunk of chunks) {
    budget.addBytes(chunk.length)
    isBareList ??= BARE_LIST.test(chunk.toString('latin1', 0, 256))
    reader.push(chunk)
    if (reader.size >= BATCH) yield reader.take()
  }
  reader.end()
  if (!reader.has('/data/servers') && !reader.has('/servers'))
    throw new SourceError('wrong_shape', isBareList ? NO_LIST_ALONE : NO_CATALOG)
  const { count, unusable } = reader
  if (unusable !== undefined)
    throw new SourceError(
      'no_usable_entry',
      `none of ${count} entries is usable; ${unusable.pointer}: ${unusable.message}`,
    )
  yield reader.take()
}

/** What a list begins with, behind a byte order mark or none. */
const BARE_LIST = /^(?:\xef\xbb\xbf)?\s*\[/
/** The official registry's seed of 2025-05 is one. Its entries say neither how packages are started nor which version they are. */
const NO_LIST_ALONE =
  'it is a list alone: write {"servers": […]} around it; entries of the form of before 2025-09 (version_detail) have to be written as a current server.json'
const NO_CATALOG =
  'it is neither a registry file ({"version", "meta", "data": {"servers": […]}}) nor a list response ({"servers": [{"server": …}]})'

/** The lists of the registry API: `servers` as in v0.1, `skills` as in our extension of it. */
export type ListKind = 'servers' | 'skills'

/** What a page of a list response has besides its entries, known when it has been read. */
export interface PageEnd {
  /** Entries on the page, those that were left out among them. */
  readonly count: number
  /** What was left out first, where nothing was usable. */
  readonly unusable: Problem | undefined
  readonly nextCursor: string | undefined
  /** The latest time of change on the page up to a time, in UTC with milliseconds. */
  readonly newest: string | undefined
}

export interface PageOptions {
  readonly kind: ListKind
  /** Times of change up to this count. */
  readonly until: string
  readonly budget: Budget
  /** Names on the pages before. */
  readonly names: SeenVersions
}

/** Reads a page of such a list, in batches as its bytes come. Throws a SourceError where it is none. */
export async function* readPage(
  chunks: Chunks,
  { kind, until, budget, names }: PageOptions,
): AsyncGenerator<Catalog, PageEnd> {
  const reader = new CatalogReader({ budget, until, names })
  for await (const chunk of chunks) {
    budget.addBytes(chunk.length)
    reader.push(chunk)
    if (reader.size >= BATCH) yield reader.take()
  }
  reader.end()
  if (!reader.has(`/${kind}`))
    throw new SourceError(
      'wrong_shape',
      `the answer is no list response ({"${kind}": [{"${kind.slice(0, -1)}": …}], "metadata"})`,
    )
  const { metadata, newest } = reader.listed
  const { nextCursor } = isObject(metadata) ? metadata : {}
  // A list that goes on in a way that is not understood must not pass for one that ends here.
  if (typeof (nextCursor ?? '') !== 'string')
    throw new SourceError('wrong_shape', '/metadata/nextCursor: must be string')
  const { count, unusable } = reader
  yield reader.take()
  return { count, unusable, nextCursor: (nextCursor as string | null | undefined) || undefined, newest }
}
