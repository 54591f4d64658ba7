import { decodeCursor, encodeCursor, queryDigest } from './cursor.ts'
import type { EntryType } from './entry-type.ts'

/** Where a page of raw entries ended. */
interface EntryPosition {
  readonly type: EntryType
  readonly name: string
  readonly source: string
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
