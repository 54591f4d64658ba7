import type { Handler } from 'hono'
import { PublicError } from '../../server/errors.ts'
import type { Reader } from '../store/read.ts'
import type { RegistryEnv } from './app.ts'
import { notModified, revisionHeaders } from './conditional.ts'
import { jsonText } from './json-text.ts'
import { versionQuery } from './query.ts'
import { listText } from './version-text.ts'

/** `GET /servers/{name}/versions`: all versions of one server, newest first. */
export function listVersions(reader: Reader): Handler<RegistryEnv> {
  return async function answerVersions(c) {
    const rows = await reader.versions(await versionQuery(c, reader))
    const [first] = rows
    if (first === undefined) throw new PublicError('not_found')
    return notModified(c, first.revision) ?? jsonText(c, listText(rows), revisionHeaders(first.revision))
  }
}
