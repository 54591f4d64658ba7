import { isObject } from '../../../../crds/settings/json.ts'
import type { Budget } from './budget.ts'
import { type Catalog, CatalogReader } from './catalog-reader.ts'
import type { Problem } from './read-entry.ts'
import type { SeenVersions } from './seen-versions.ts'
import { SourceError } from './source-error.ts'

/** The characters of documents in one batch: so much is in memory while it is written. */
const BATCH = 1024 * 1024

type Chunks = AsyncIterable<Buffer> | Iterable<Buffer>

/**
 * Reads the entries of a registry file (`{"$schema", "version", "meta", "data": {"servers": [], "skills": []}}`) or a
 * list response of the registry API v0.1 (`{"servers": [{"server", "_meta"}], "metadata"}`), in batches. Throws a
 * SourceError if the whole is invalid, possibly after some batches, or if nothing is usable.
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

/** The beginning of a list, with or without a byte order mark. */
const BARE_LIST = /^(?:\xef\xbb\xbf)?\s*\[/
/** The official registry's seed of 2025-05 is one. Its entries lack the way to start packages, and their version. */
const NO_LIST_ALONE =
  'it is a bare list: write {"servers": […]} around it; entries of the form of before 2025-09 (version_detail) have to be written as a current server.json'
const NO_CATALOG =
  'it is neither a registry file ({"version", "meta", "data": {"servers": […]}}) nor a list response ({"servers": [{"server": …}]})'

/** The lists of the registry API: `servers` as in v0.1, `skills` as in our extension of it. */
export type ListKind = 'servers' | 'skills'

/** The parts of a list response's page besides its entries, known once it has been read. */
export interface PageEnd {
  readonly count: number
  /** The first entry that was left out, if none was usable. */
  readonly unusable: Problem | undefined
  readonly nextCursor: string | undefined
  /** The latest time of change on the page up to `until`, in UTC with milliseconds. */
  readonly newest: string | undefined
}

export interface PageOptions {
  readonly kind: ListKind
  readonly until: string
  readonly budget: Budget
  readonly names: SeenVersions
}

/** Reads a page of such a list, in batches as its bytes arrive. Throws a SourceError if it is not one. */
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
  const said = isObject(metadata) ? metadata : {}
  // Registries of before 2025-10 spell it `next_cursor`.
  const nextCursor = said['nextCursor'] ?? said['next_cursor']
  // A list with an unknown kind of cursor must not pass for one that ends here.
  if (typeof (nextCursor ?? '') !== 'string')
    throw new SourceError('wrong_shape', '/metadata/nextCursor: must be string')
  const { count, unusable } = reader
  yield reader.take()
  return { count, unusable, nextCursor: (nextCursor as string | null | undefined) || undefined, newest }
}
