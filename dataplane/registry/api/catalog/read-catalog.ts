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
 * Reads what a registry shows the caller of what they ask for; undefined where there is no such entry or version that they
 * see. Throws a PublicError `unavailable` where the store is away, and what `hold` throws.
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
      // Behind the last one there is a page that is empty; of what nobody sees there is none.
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

/** Parts of the JSON text of `{server, _meta}`, or `skill`. The document goes in as it came: it is not parsed on the way. */
function versionParts(type: EntryType, row: VersionRow): string[] {
  return [`{"${type}":`, row.document, endOf(row)]
}

/** Parts of the JSON text of `{servers, metadata}`, or `skills`; `count` is the page's. */
function listParts(type: EntryType, rows: readonly VersionRow[], nextCursor?: string): string[] {
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
function encodeParts(parts: readonly string[]): Buffer {
  let size = 0
  for (const part of parts) size += Buffer.byteLength(part)
  const bytes = Buffer.allocUnsafe(size)
  let end = 0
  for (const part of parts) end += bytes.write(part, end)
  return bytes
}
