import { encodeCursor } from '../catalog/cursor.ts'
import type { Reader } from '../store/read.ts'
import type { OpenRegistry } from './gate.ts'
import type { Body } from './kept-bodies.ts'
import type { Question } from './query.ts'
import { encodeParts, listParts, versionParts } from './version-parts.ts'

/**
 * Reads what a registry shows the caller of what they ask for; undefined where there is no such entry or version that they
 * see. Throws a PublicError `unavailable` where the store is away.
 */
export async function readCatalog(
  reader: Reader,
  question: Question,
  { visible }: OpenRegistry,
): Promise<Body | undefined> {
  switch (question.asks) {
    case 'list': {
      const { query } = question
      // One more than was asked for tells whether there is a next page.
      const rows = await reader.list({ ...query, visible, limit: query.limit + 1 })
      const page = rows.slice(0, query.limit)
      const last = rows.length > query.limit ? page.at(-1) : undefined
      const parts = listParts(query.type, page, last && encodeCursor(last, query.digest))
      return plain(parts, rows[0]?.revision)
    }
    case 'versions': {
      const { query } = question
      const rows = await reader.versions({ ...query, visible })
      const [first] = rows
      return first && plain(listParts(query.type, rows), first.revision)
    }
    case 'version': {
      const { query } = question
      const row = await reader.version({ ...query, visible })
      return row && plain(versionParts(query.type, row), row.revision)
    }
  }
}

function plain(parts: readonly string[], revision: string | undefined): Body {
  return { bytes: encodeParts(parts), gzip: false, revision }
}
