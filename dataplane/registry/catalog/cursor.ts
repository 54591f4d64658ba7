import { hash } from 'node:crypto'
import type { EntryType } from './entry.ts'

/** Where a page ended: the last name and version on it. The next page begins after it, whatever changed meanwhile. */
export interface Position {
  readonly name: string
  readonly version: string
}

/** A cursor is made of a name and a version; a longer one is not ours. */
const LONGEST = 2048

/** Where a page of raw entries ended. */
interface EntryPosition {
  readonly type: EntryType
  readonly name: string
  readonly source: string
}

/**
 * Digest of the query that a cursor belongs to: a cursor that is used with another query would skip entries silently.
 * The page size is no part of it.
 */
export function queryDigest(query: Readonly<Record<string, string | boolean | undefined>>): string {
  return hash('sha256', JSON.stringify(Object.entries(query).sort()), 'base64url').slice(0, 8)
}

/** An opaque cursor in unpadded base64url: VS Code puts it into the query as it is. */
export function encodeCursor(position: Position, digest: string): string {
  return Buffer.from(JSON.stringify([digest, position.name, position.version])).toString('base64url')
}

/** The position that a cursor stands for; undefined where it is none of ours or belongs to another query. */
export function decodeCursor(cursor: string, digest: string): Position | undefined {
  if (cursor.length > LONGEST || !/^[\w-]+$/.test(cursor)) return undefined
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (!Array.isArray(parts) || parts.length !== 3) return undefined
    const [owner, name, version] = parts
    return owner === digest && isText(name) && isText(version) ? { name, version } : undefined
  } catch {
    // No JSON: a cursor that somebody has made up.
    return undefined
  }
}

/** PostgreSQL takes no U+0000: a cursor that somebody has made up must not become an error of ours. */
function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0')
}

/** A cursor in a list of raw entries; `owner` is the list. */
export function encodeEntryCursor({ type, name, source }: EntryPosition, owner: string): string {
  return encodeCursor({ name, version: `${type} ${source}` }, queryDigest({ entries: owner }))
}

/** Undefined where it is none of this list's. */
export function decodeEntryCursor(cursor: string, owner: string): EntryPosition | undefined {
  const position = decodeCursor(cursor, queryDigest({ entries: owner }))
  const [, type, source] = /^(server|skill) (.+)$/.exec(position?.version ?? '') ?? []
  if (position === undefined || type === undefined || source === undefined) return undefined
  return { type: type as EntryType, name: position.name, source }
}
