import type { Handler } from 'hono'
import { PublicError } from '../../server/errors.ts'
import { encodeCursor } from '../catalog/cursor.ts'
import type { Reader } from '../store/read.ts'
import type { RegistryEnv } from './app.ts'
import { notModified, revisionHeaders } from './conditional.ts'
import { jsonText } from './json-text.ts'
import { pageQuery } from './query.ts'
import { listText } from './version-text.ts'

/** `GET /servers`: a page of versions by name and precedence. */
export function listServers(reader: Reader): Handler<RegistryEnv> {
  return async function answerServers(c) {
    const query = await pageQuery(c, reader)
    const unchanged = notModified(c, c.req.header('if-none-match') && (await reader.revision(query.registry)))
    if (unchanged !== undefined) return unchanged

    // One more than was asked for tells whether there is a next page.
    const rows = await reader.list({ ...query, limit: query.limit + 1 })
    const page = rows.slice(0, query.limit)
    const last = rows.length > query.limit ? page.at(-1) : undefined
    const revision = rows[0]?.revision ?? (await reader.revision(query.registry))
    if (revision === undefined) throw new PublicError('not_found')
    return jsonText(c, listText(page, last && encodeCursor(last, query.digest)), revisionHeaders(revision))
  }
}
