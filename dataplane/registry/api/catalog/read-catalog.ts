import { encodeCursor } from '../../catalog/cursor.ts'
import type { VersionRow } from '../../store/database/version-columns.ts'
import type { ReserveMemory } from '../../store/read/large-texts.ts'
import type { Reader } from '../../store/read/read.ts'
import type { OpenRegistry } from '../request/gate.ts'
import type { CatalogQuery } from '../request/query.ts'
import type { ResponseBody } from './body-cache.ts'
import { encodeParts, listParts, versionParts } from './version-parts.ts'

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
