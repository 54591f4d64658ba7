import { writeMeta } from '../catalog/official-meta.ts'
import type { VersionRow } from '../store/listing-statement.ts'

/** JSON text of `{server, _meta}`. The document goes in as it came: it is not parsed on the way. */
export function versionText(row: VersionRow): string {
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
  return `{"server":${row.document},"_meta":${meta}}`
}

/** JSON text of `{servers, metadata}`; `count` is the page's. */
export function listText(rows: readonly VersionRow[], nextCursor?: string): string {
  const metadata = JSON.stringify({ count: rows.length, nextCursor })
  return `{"servers":[${rows.map(versionText).join(',')}],"metadata":${metadata}}`
}
