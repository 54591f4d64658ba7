import type { EntryType } from '../../catalog/entry-type.ts'
import { writeMeta } from '../../catalog/official-meta.ts'
import type { VersionRow } from '../../store/database/version-columns.ts'

/** Parts of the JSON text of `{server, _meta}`, or `skill`. The document goes in as it came: it is not parsed on the way. */
export function versionParts(type: EntryType, row: VersionRow): string[] {
  return [`{"${type}":`, row.document, endOf(row)]
}

/** Parts of the JSON text of `{servers, metadata}`, or `skills`; `count` is the page's. */
export function listParts(type: EntryType, rows: readonly VersionRow[], nextCursor?: string): string[] {
  const metadata = JSON.stringify({ count: rows.length, nextCursor })
  const parts: string[] = []
  // Few parts: what stands between two documents is one.
  let between = `{"${type}s":[`
  for (const [index, row] of rows.entries()) {
    parts.push(`${between}${index === 0 ? '' : ','}{"${type}":`, row.document)
    between = endOf(row)
  }
  parts.push(`${between}],"metadata":${metadata}}`)
  return parts
}

/** What comes behind a document. */
function endOf(row: VersionRow): string {
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
 * The parts in UTF-8, one behind the other. To join them first would copy the text twice, into
 * places that V8 frees late (measured for 135 kB: 0.27 ms against 0.13).
 */
export function encodeParts(parts: readonly string[]): Buffer {
  let size = 0
  for (const part of parts) size += Buffer.byteLength(part)
  const bytes = Buffer.allocUnsafe(size)
  let end = 0
  for (const part of parts) end += bytes.write(part, end)
  return bytes
}
