import type { Handler } from 'hono'
import { PublicError } from '../../server/errors.ts'
import type { Reader } from '../store/read.ts'
import type { RegistryEnv } from './app.ts'
import { notModified, revisionHeaders } from './conditional.ts'
import { jsonText } from './json-text.ts'
import { versionQuery } from './query.ts'
import { versionText } from './version-text.ts'

/** `GET /servers/{name}/versions/{version}`; VS Code asks it for each installed server, with `latest`. */
export function getVersion(reader: Reader): Handler<RegistryEnv> {
  return async function answerVersion(c) {
    const row = await reader.version(await versionQuery(c, reader))
    if (row === undefined) throw new PublicError('not_found')
    return notModified(c, row.revision) ?? jsonText(c, versionText(row), revisionHeaders(row.revision))
  }
}
