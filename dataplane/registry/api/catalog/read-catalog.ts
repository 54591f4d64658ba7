import { encodeCursor } from '../../catalog/cursor.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { writeMeta } from '../../catalog/official-meta.ts'
import type { VersionRow } from '../../store/database/version-columns.ts'
import type { ReserveMemory } from '../../store/read/large-texts.ts'
import type { Reader } from '../../store/read/read.ts'
import type { OpenRegistry } from '../request/gate.ts'
import type { CatalogQuery } from '../request/query.ts'
import type { ResponseBody } from './body-cache.ts'

/**
 * Reads the requested part of a registry for a caller. Returns undefined if the caller sees no such entry or version.
 * Throws a PublicError `unavailable`, and any error that `hold` throws.
 */
export async function readCatalog(
  reader: Reader,
  question: CatalogQuery,
  { visible }: OpenRegistry,
  hold: ReserveMemory,
): Promise<ResponseBody | undefined> {
  switch (question.kind) {
    case 'list': {
      const { query } = question
      const { rows, more } = await reader.list({ ...query, visible }, hold)
      return plain(listParts(query.type, rows, more ? cursorBehind(rows, query.digest) : undefined), rows[0]?.revision)
    }
    case 'versions': {
      const { query } = question
      const { rows, more } = await reader.versions({ ...query, visible }, hold)
      // The page after the last version is empty. An entry that the caller does not see has no page.
      if (rows.length === 0 && query.after === undefined) return undefined
      return plain(listParts(query.type, rows, more ? cursorBehind(rows, query.digest) : undefined), rows[0]?.revision)
    }
    case 'version': {
      const { query } = question
      const row = await reader.version({ ...query, visible }, hold)
      return row && plain(versionParts(query.type, row), row.revision)
    }
  }
}

function cursorBehind(rows: readonly VersionRow[], digest: string): string {
  return encodeCursor(rows.at(-1) as VersionRow, digest)
}

function plain(parts: readonly string[], revision: string | undefined): ResponseBody {
  return { bytes: encodeParts(parts), gzip: false, revision }
}

/** Returns parts of the JSON text of `{server, _meta}`, or `skill`, with the document as stored. */
function versionParts(type: EntryType, row: VersionRow): string[] {
  return [`{"${type}":`, row.document, formatEnd(row)]
}

/** Returns parts of the JSON text of `{servers, metadata}`, or `skills`; `count` is the page's. */
function listParts(type: EntryType, rows: readonly VersionRow[], nextCursor?: string): string[] {
  const metadata = JSON.stringify({ count: rows.length, nextCursor })
  const parts: string[] = []
  // The text between two documents is a single part, so that there are few parts.
  let between = `{"${type}s":[`
  for (const [index, row] of rows.entries()) {
    parts.push(`${between}${index === 0 ? '' : ','}{"${type}":`, row.document)
    between = formatEnd(row)
  }
  parts.push(`${between}],"metadata":${metadata}}`)
  return parts
}

/** Returns the text that follows a document. */
function formatEnd(row: VersionRow): string {
  const meta = writeMeta(
    {
      status: row.status,
      statusMessage: row.status_message,
      statusChangedAt: row.status_changed_at,
      publishedAt: row.published_at,
      updatedAt: row.updated_at,
      isLatest: row.is_latest === 1,
    },
    row.other_meta,
  )
  return `,"_meta":${meta}}`
}

/**
 * Encodes the parts in UTF-8. Joining them first would copy the text twice, into memory that V8 frees late (135 kB:
 * 0.27 ms against 0.13).
 */
function encodeParts(parts: readonly string[]): Buffer {
  let size = 0
  for (const part of parts) size += Buffer.byteLength(part)
  const bytes = Buffer.allocUnsafe(size)
  let end = 0
  for (const part of parts) end += bytes.write(part, end)
  return bytes
}
