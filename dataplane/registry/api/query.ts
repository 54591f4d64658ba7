import type { Context } from 'hono'
import { type ErrorDetail, PublicError } from '../../server/errors.ts'
import { decodeCursor, queryDigest } from '../catalog/cursor.ts'
import { isServerName, isVersion } from '../catalog/names.ts'
import { timestamp } from '../catalog/timestamp.ts'
import type { ListQuery, VersionQuery } from '../store/read.ts'
import type { EntryType } from '../store/schema.ts'

const DEFAULT_LIMIT = 30
const LARGEST_LIMIT = 100
const LONGEST_SEARCH = 200

/** Gathers what is wrong with a request. */
class Findings {
  readonly details: ErrorDetail[] = []

  add(field: string, message: string): void {
    this.details.push({ pointer: `/${field}`, message })
  }

  /** Throws a PublicError where there is one. */
  settle(): void {
    if (this.details.length === 0) return
    const [{ pointer, message }] = this.details as [ErrorDetail]
    throw new PublicError('invalid_request', { message: `${pointer.slice(1)} ${message}`, details: this.details })
  }
}

/** A page that was asked for, and the digest that its cursor must carry. */
export interface PageQuery extends Omit<ListQuery, 'type' | 'visible'> {
  readonly digest: string
}

/** Reads the query of a list. Unknown parameters are passed over and empty ones count as absent, as clients send both. */
export function pageQuery(c: Context, registry: string, type: EntryType): PageQuery {
  const findings = new Findings()
  const search = given(c, 'search')
  const version = given(c, 'version')
  const limit = limitOf(given(c, 'limit'), findings)
  const updatedSince = timeOf(given(c, 'updated_since'), findings)
  // Who follows changes has to learn of deletions (registry API v0.1).
  const includeDeleted = flagOf(c, findings) || updatedSince !== undefined
  if (search !== undefined && search.length > LONGEST_SEARCH)
    findings.add('search', `must have at most ${LONGEST_SEARCH} characters`)
  if (search?.includes('\0')) findings.add('search', 'must not have the character U+0000')
  if (version !== undefined && version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)

  const digest = queryDigest({ registry, type, search, version, updatedSince, includeDeleted })
  const cursor = given(c, 'cursor')
  const after = cursor === undefined ? undefined : decodeCursor(cursor, digest)
  if (cursor !== undefined && after === undefined && findings.details.length === 0)
    findings.add('cursor', 'is not a cursor of this list and query')

  findings.settle()
  return { registry, limit, after, search, updatedSince, version, includeDeleted, digest }
}

/** Reads which version of which server is asked for. Without a version in the path all are. */
export function versionQuery(c: Context, registry: string): Omit<VersionQuery, 'type' | 'visible'> {
  const findings = new Findings()
  const name = param(c, 'entry') || `${param(c, 'namespace')}/${param(c, 'short')}`
  const version = param(c, 'version') || 'latest'
  const includeDeleted = flagOf(c, findings)
  if (!isServerName(name)) findings.add('name', 'must be namespace/name of letters, digits and . _ -, 3 to 200 long')
  if (version !== 'latest' && !isVersion(version)) findings.add('version', VERSION_RULE)
  findings.settle()
  return { registry, name, version, includeDeleted }
}

const VERSION_RULE = 'must be `latest` or a version of 1 to 255 characters'

const param = (c: Context, name: string) => c.req.param(name) ?? ''
const given = (c: Context, name: string) => c.req.query(name) || undefined

function limitOf(text: string | undefined, findings: Findings): number {
  const limit = text === undefined ? DEFAULT_LIMIT : /^\d+$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > LARGEST_LIMIT) findings.add('limit', `must be a whole number from 1 to ${LARGEST_LIMIT}`)
  return limit
}

function timeOf(text: string | undefined, findings: Findings): string | undefined {
  if (text === undefined) return undefined
  const time = timestamp(text)
  if (time === undefined) findings.add('updated_since', 'must be a date and time of RFC 3339: 2026-11-20T00:00:00Z')
  return time
}

function flagOf(c: Context, findings: Findings): boolean {
  const text = given(c, 'include_deleted') ?? 'false'
  if (text !== 'true' && text !== 'false') findings.add('include_deleted', 'must be true or false')
  return text === 'true'
}
