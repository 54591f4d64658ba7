import { writeMeta } from '../catalog/official-meta.ts'
import type { EntryType } from '../store/schema.ts'
import type { VersionRow } from '../store/version-columns.ts'

/** JSON text of `{server, _meta}`, or `skill`. The document goes in as it came: it is not parsed on the way. */
export function versionText(type: EntryType, row: VersionRow): string {
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
  return `{"${type}":${row.document},"_meta":${meta}}`
}

/** JSON text of `{servers, metadata}`, or `skills`; `count` is the page's. */
export function listText(type: EntryType, rows: readonly VersionRow[], nextCursor?: string): string {
  const metadata = JSON.stringify({ count: rows.length, nextCursor })
  return `{"${type}s":[${rows.map((row) => versionText(type, row)).join(',')}],"metadata":${metadata}}`
}
