import { createBudget } from '../../../dataplane/registry/sources/format/budget.ts'
import { type Catalog, readCatalog } from '../../../dataplane/registry/sources/format/catalog-reader.ts'

/** Parses a whole registry file in pieces of this many bytes. */
export async function parseCatalog(bytes: Buffer, piece = 64 * 1024): Promise<Catalog> {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; at += piece) pieces.push(bytes.subarray(at, at + piece))
  const catalogs: Catalog[] = []
  for await (const catalog of readCatalog(pieces, createBudget(2 ** 30))) catalogs.push(catalog)
  return {
    versions: catalogs.flatMap(({ versions }) => versions),
    problems: catalogs.flatMap(({ problems }) => problems),
  }
}
