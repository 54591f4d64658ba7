import { hash } from 'node:crypto'
import type { EntryType } from './entry.ts'

/** The last name and version of a page. The next page begins after them, whatever has changed meanwhile. */
export interface Position {
  readonly name: string
  readonly version: string
}

/** A cursor holds a name and a version, so a longer one is not ours. */
const LONGEST_CURSOR = 2048

export interface EntryPosition {
  readonly type: EntryType
  readonly name: string
  readonly source: string
}

/**
 * Returns the digest of a query without its page size. A cursor carries it, since with another query it would skip
 * entries silently.
 */
export function queryDigest(query: Readonly<Record<string, string | boolean | undefined>>): string {
  return hash('sha256', JSON.stringify(Object.entries(query).sort()), 'base64url').slice(0, 8)
}

/** Encodes an opaque cursor in unpadded base64url: VS Code puts it into the query unescaped. */
export function encodeCursor(position: Position, digest: string): string {
  return Buffer.from(JSON.stringify([digest, position.name, position.version])).toString('base64url')
}

/** Decodes the position in a cursor; undefined if the cursor is not ours or belongs to another query. */
export function decodeCursor(cursor: string, digest: string): Position | undefined {
  if (cursor.length > LONGEST_CURSOR || !/^[\w-]+$/.test(cursor)) return undefined
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (!Array.isArray(parts) || parts.length !== 3) return undefined
    const [ofQuery, name, version] = parts
    return ofQuery === digest && isText(name) && isText(version) ? { name, version } : undefined
  } catch {
    // A cursor of ours holds JSON, so this one is forged.
    return undefined
  }
}

/** Tells whether a value is a text without U+0000, which PostgreSQL refuses: a cursor may be forged. */
function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0')
}

/** Encodes a cursor for a list of the admin API's entries; `list` names the list. */
export function encodeEntryCursor({ type, name, source }: EntryPosition, list: string): string {
  return encodeCursor({ name, version: `${type} ${source}` }, queryDigest({ entries: list }))
}

/** Decodes such a cursor; undefined if it does not belong to this list. */
export function decodeEntryCursor(cursor: string, list: string): EntryPosition | undefined {
  const position = decodeCursor(cursor, queryDigest({ entries: list }))
  const [, type, source] = /^(server|skill) (.+)$/.exec(position?.version ?? '') ?? []
  if (position === undefined || type === undefined || source === undefined) return undefined
  return { type: type as EntryType, name: position.name, source }
}

export interface GatePosition {
  readonly name: string
  /** The position of its source in the registry. */
  readonly rank: number
  readonly version: string
}

export function encodeGateCursor({ name, rank, version }: GatePosition, registry: string): string {
  return encodeCursor({ name, version: `${rank} ${version}` }, queryDigest({ gate: registry }))
}

/** Decodes such a cursor; undefined if it does not belong to this gate. */
export function decodeGateCursor(cursor: string, registry: string): GatePosition | undefined {
  const position = decodeCursor(cursor, queryDigest({ gate: registry }))
  const [, rank, version] = /^(\d{1,9}) (.+)$/.exec(position?.version ?? '') ?? []
  if (position === undefined || rank === undefined || version === undefined) return undefined
  return { name: position.name, rank: Number(rank), version }
}
