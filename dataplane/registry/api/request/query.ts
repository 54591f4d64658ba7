import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { decodeCursor, type Position, queryDigest } from '../../catalog/cursor.ts'
import { type EntryType, isLonger, isServerName, isVersion, timestamp } from '../../catalog/entry.ts'
import type { ListQuery, VersionQuery, VersionsQuery } from '../../store/read/read.ts'
import { LONGEST_SEARCH, PAGE_SIZE } from '../schemas/catalog.ts'

const NO_QUERY = new URLSearchParams()

/** Splits a request target, which may come with scheme and host (RFC 9112 section 3.2.2). */
export function splitTarget(url: string): { readonly path: string; readonly query: URLSearchParams } {
  const local = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '')
  const end = local.indexOf('?')
  if (end === -1) return { path: local, query: NO_QUERY }
  return { path: local.slice(0, end), query: new URLSearchParams(local.slice(end + 1)) }
}

/** A parsed path of the consumer API. Its parts are decoded, and not checked yet. */
export interface CatalogPath {
  readonly registry: string
  readonly type: EntryType
  readonly kind: 'list' | 'versions' | 'version'
  readonly name: string
  readonly version: string
}

const ROOT = '/registry/'

/**
 * Parses a raw path; undefined if it is not one of the consumer API. The slash in an entry's name should be encoded;
 * some clients and proxies send it as it is.
 */
export function parseCatalogPath(path: string): CatalogPath | undefined {
  if (!path.startsWith(ROOT)) return undefined
  const segments = path.slice(ROOT.length).split('/')
  if (segments.includes('')) return undefined
  const [registry = '', api, collection, ...rest] = segments.map(decodeSegment)
  if (api !== 'v0.1') return undefined
  if (collection === 'servers') return parseEntryPath(registry, 'server', rest)
  if (collection === 'x' && rest[0] === 'portico' && rest[1] === 'skills')
    return parseEntryPath(registry, 'skill', rest.slice(2))
  return undefined
}

function parseEntryPath(registry: string, type: EntryType, rest: readonly string[]): CatalogPath | undefined {
  if (type === 'skill' && isSkillName(rest))
    return { registry, type, kind: 'version', name: rest.join('/'), version: 'latest' }
  const [first = '', second = '', third = '', fourth = ''] = rest
  const path = { registry, type, name: first, version: '' }
  const joined = { ...path, name: `${first}/${second}` }
  switch (rest.length) {
    case 0:
      return { ...path, kind: 'list' }
    case 2:
      return second === 'versions' ? { ...path, kind: 'versions' } : undefined
    case 3:
      // An entry may be called `versions`, and so may a version.
      if (third === 'versions' && !first.includes('/')) return { ...joined, kind: 'versions' }
      return second === 'versions' ? { ...path, kind: 'version', version: third } : undefined
    case 4:
      return third === 'versions' ? { ...joined, kind: 'version', version: fourth } : undefined
    default:
      return undefined
  }
}

/** Tells whether the segments are the name of a skill and nothing else. With an encoded slash it is one segment. */
function isSkillName([first = '', second = '', ...others]: readonly string[]): boolean {
  if (others.length > 0) return false
  const isWhole = first.includes('/')
  return second === '' ? isWhole : !(second === 'versions' && isWhole)
}

function decodeSegment(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

interface ListPageQuery extends Omit<ListQuery, 'visible'> {
  readonly digest: string
}

/** A checked query. Together with what the caller sees, it determines the whole response. */
export type CatalogQuery =
  | { readonly kind: 'list'; readonly query: ListPageQuery }
  | { readonly kind: 'versions'; readonly query: Omit<VersionsQuery, 'visible'> & { readonly digest: string } }
  | { readonly kind: 'version'; readonly query: Omit<VersionQuery, 'visible'> }

/** Checks a path and its query. Throws a PublicError `invalid_request` with all findings. */
export function parseCatalogQuery(path: CatalogPath, query: URLSearchParams): CatalogQuery {
  const { kind } = path
  switch (kind) {
    case 'list':
      return { kind, query: readPageQuery(path, query) }
    case 'versions':
      return { kind, query: readVersionsQuery(path, query) }
    case 'version':
      return { kind, query: readVersionQuery(path, query) }
  }
}

/** Reads the query of a list. It ignores unknown parameters, and takes empty ones for absent. */
function readPageQuery({ registry, type }: CatalogPath, query: URLSearchParams): ListPageQuery {
  const findings = new QueryFindings()
  const search = readText(query, 'search')
  const version = readText(query, 'version')
  const limit = readLimit(readText(query, 'limit'), findings)
  const updatedSince = readTime(readText(query, 'updated_since'), findings)
  // A client that follows changes has to learn of deletions (registry API v0.1).
  const includeDeleted =
    readFlag('include_deleted', readText(query, 'include_deleted'), findings) || updatedSince !== undefined
  if (search !== undefined && isLonger(search, LONGEST_SEARCH))
    findings.add('search', `must have at most ${LONGEST_SEARCH} characters`)
  if (search?.includes('\0')) findings.add('search', 'must not have the character U+0000')
  if (version !== undefined && version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)

  const digest = queryDigest({ registry, type, search, version, updatedSince, includeDeleted })
  const after = readPosition(readText(query, 'cursor'), digest, findings)
  findings.throwIfAny()
  return { registry, type, limit, after, search, updatedSince, version, includeDeleted, digest }
}

function readPosition(cursor: string | undefined, digest: string, findings: QueryFindings): Position | undefined {
  const after = cursor === undefined ? undefined : decodeCursor(cursor, digest)
  if (cursor !== undefined && after === undefined && findings.details.length === 0)
    findings.add('cursor', 'is not a cursor of this list and query')
  return after
}

function readVersionsQuery(path: CatalogPath, query: URLSearchParams) {
  const findings = new QueryFindings()
  const { version: _, ...asked } = readVersionQuery(path, query, findings)
  const digest = queryDigest({ ...asked, asks: 'versions' })
  const after = readPosition(readText(query, 'cursor'), digest, findings)
  findings.throwIfAny()
  return { ...asked, after, digest }
}

function readVersionQuery(
  path: CatalogPath,
  query: URLSearchParams,
  findings = new QueryFindings(),
): Omit<VersionQuery, 'visible'> {
  const { registry, type, name } = path
  const version = path.version || 'latest'
  const includeDeleted = readFlag('include_deleted', readText(query, 'include_deleted'), findings)
  if (!isServerName(name)) findings.add('name', 'must be namespace/name of letters, digits and . _ -, 3 to 200 long')
  if (version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)
  findings.throwIfAny()
  return { registry, type, name, version, includeDeleted }
}

const VERSION_RULE = 'must be `latest` or a version of 1 to 255 characters'

const readText = (query: URLSearchParams, name: string) => query.get(name) || undefined

function readTime(text: string | undefined, findings: QueryFindings): string | undefined {
  if (text === undefined) return undefined
  const time = timestamp(text)
  if (time === undefined) findings.add('updated_since', 'must be a date and time of RFC 3339: 2026-11-20T00:00:00Z')
  return time
}

/** Collects the findings in the parameters of a request, so that one response lists all of them. */
export class QueryFindings {
  readonly details: ErrorDetail[] = []

  add(parameter: string, message: string): void {
    this.details.push({ pointer: `/${parameter}`, message })
  }

  /** Throws a PublicError `invalid_request` that lists the findings, if there are any. */
  throwIfAny(): void {
    const [first] = this.details
    if (first === undefined) return
    const { pointer, message } = first
    throw new PublicError('invalid_request', { message: `${pointer.slice(1)} ${message}`, details: this.details })
  }
}

/** Reads `limit`; the default page size if it is absent or empty. */
export function readLimit(text: string | undefined, findings: QueryFindings): number {
  if (!text) return PAGE_SIZE.usual
  const limit = /^\d+$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > PAGE_SIZE.largest)
    findings.add('limit', `must be a whole number from 1 to ${PAGE_SIZE.largest}`)
  return limit
}

/** Reads a parameter that is `true` or `false`; false if it is absent or empty. */
export function readFlag(parameter: string, text: string | undefined, findings: QueryFindings): boolean {
  const flag = text || 'false'
  if (flag !== 'true' && flag !== 'false') findings.add(parameter, 'must be true or false')
  return flag === 'true'
}
