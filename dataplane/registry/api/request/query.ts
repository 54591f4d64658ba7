import { decodeCursor, type Position, queryDigest } from '../../catalog/cursor.ts'
import { isLonger, isServerName, isVersion } from '../../catalog/names.ts'
import { timestamp } from '../../catalog/timestamp.ts'
import type { ListQuery, VersionQuery, VersionsQuery } from '../../store/read/read.ts'
import { LONGEST_SEARCH } from '../schemas/catalog.ts'
import type { CatalogPath } from './catalog-path.ts'
import { QueryFindings, readFlag, readLimit } from './query-findings.ts'

/** A requested page, and the digest that its cursor must carry. */
export interface ListPageQuery extends Omit<ListQuery, 'visible'> {
  readonly digest: string
}

/** A checked query of a registry. Together with what the caller sees, it decides the whole response. */
export type CatalogQuery =
  | { readonly kind: 'list'; readonly query: ListPageQuery }
  | { readonly kind: 'versions'; readonly query: Omit<VersionsQuery, 'visible'> & { readonly digest: string } }
  | { readonly kind: 'version'; readonly query: Omit<VersionQuery, 'visible'> }

/** Checks a path and its query. Throws a PublicError `invalid_request` that names all faults. */
export function parseCatalogQuery(path: CatalogPath, query: URLSearchParams): CatalogQuery {
  const { kind } = path
  switch (kind) {
    case 'list':
      return { kind, query: pageQuery(path, query) }
    case 'versions':
      return { kind, query: versionsQuery(path, query) }
    case 'version':
      return { kind, query: versionQuery(path, query) }
  }
}

/** Reads the query of a list. Unknown parameters are ignored, and empty ones count as absent. */
function pageQuery({ registry, type }: CatalogPath, query: URLSearchParams): ListPageQuery {
  const findings = new QueryFindings()
  const search = given(query, 'search')
  const version = given(query, 'version')
  const limit = readLimit(given(query, 'limit'), findings)
  const updatedSince = readTime(given(query, 'updated_since'), findings)
  // A client that follows changes has to learn of deletions (registry API v0.1).
  const includeDeleted =
    readFlag('include_deleted', given(query, 'include_deleted'), findings) || updatedSince !== undefined
  if (search !== undefined && isLonger(search, LONGEST_SEARCH))
    findings.add('search', `must have at most ${LONGEST_SEARCH} characters`)
  if (search?.includes('\0')) findings.add('search', 'must not have the character U+0000')
  if (version !== undefined && version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)

  const digest = queryDigest({ registry, type, search, version, updatedSince, includeDeleted })
  const after = readPosition(given(query, 'cursor'), digest, findings)
  findings.throwIfAny()
  return { registry, type, limit, after, search, updatedSince, version, includeDeleted, digest }
}

function readPosition(cursor: string | undefined, digest: string, findings: QueryFindings): Position | undefined {
  const after = cursor === undefined ? undefined : decodeCursor(cursor, digest)
  if (cursor !== undefined && after === undefined && findings.details.length === 0)
    findings.add('cursor', 'is not a cursor of this list and query')
  return after
}

/** Reads which entry's versions are asked for. */
function versionsQuery(path: CatalogPath, query: URLSearchParams) {
  const findings = new QueryFindings()
  const { version: _, ...asked } = versionQuery(path, query, findings)
  const digest = queryDigest({ ...asked, asks: 'versions' })
  const after = readPosition(given(query, 'cursor'), digest, findings)
  findings.throwIfAny()
  return { ...asked, after, digest }
}

function versionQuery(
  path: CatalogPath,
  query: URLSearchParams,
  findings = new QueryFindings(),
): Omit<VersionQuery, 'visible'> {
  const { registry, type, name } = path
  const version = path.version || 'latest'
  const includeDeleted = readFlag('include_deleted', given(query, 'include_deleted'), findings)
  if (!isServerName(name)) findings.add('name', 'must be namespace/name of letters, digits and . _ -, 3 to 200 long')
  if (version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)
  findings.throwIfAny()
  return { registry, type, name, version, includeDeleted }
}

const VERSION_RULE = 'must be `latest` or a version of 1 to 255 characters'

const given = (query: URLSearchParams, name: string) => query.get(name) || undefined

function readTime(text: string | undefined, findings: QueryFindings): string | undefined {
  if (text === undefined) return undefined
  const time = timestamp(text)
  if (time === undefined) findings.add('updated_since', 'must be a date and time of RFC 3339: 2026-11-20T00:00:00Z')
  return time
}
