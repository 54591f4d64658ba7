import { PublicError } from '../../server/errors.ts'
import { encodeCursor } from '../catalog/cursor.ts'
import type { EntryType } from '../store/schema.ts'
import { notModified, revisionHeaders } from './conditional.ts'
import type { Api } from './context.ts'
import { openRegistry } from './gate.ts'
import { jsonSender, type SendJson } from './json-text.ts'
import type { Operation } from './operation.ts'
import { pageQuery, versionQuery } from './query.ts'
import {
  entryParameter,
  includeDeleted,
  listParameters,
  registryParameter,
  serverList,
  serverVersion,
  skillList,
  skillVersion,
  versionParameter,
} from './schemas/catalog.ts'
import { listText, versionText } from './version-text.ts'

const BASE = '/registry/{registry}/v0.1'

/** The consumer API: what a registry shows. Servers as in the MCP registry API v0.1, skills beside it in the same way. */
export function catalogOperations(api: Pick<Api, 'reader' | 'visibilityOf'>): readonly Operation[] {
  const sendJson = jsonSender()
  return [
    ...operationsOf(api, sendJson, 'server', `${BASE}/servers`, 'Server'),
    ...operationsOf(api, sendJson, 'skill', `${BASE}/x/portico/skills`, 'Skill'),
  ]
}

function operationsOf(
  { reader, visibilityOf }: Pick<Api, 'reader' | 'visibilityOf'>,
  sendJson: SendJson,
  type: EntryType,
  base: string,
  what: 'Server' | 'Skill',
): readonly Operation[] {
  const [list, version] = type === 'server' ? [serverList, serverVersion] : [skillList, skillVersion]
  const entry = { registry: registryParameter, entry: entryParameter }
  const common = {
    tag: 'catalog',
    method: 'get',
    errors: ['forbidden_claims', 'not_found', 'invalid_request'],
  } as const

  return [
    {
      ...common,
      id: `list${what}s`,
      path: base,
      parameters: { registry: registryParameter },
      query: listParameters,
      summary: `Lists versions of ${type}s, by name and precedence.`,
      answers: { 200: { description: 'A page.', schema: list } },
      async handle(c) {
        const open = await openRegistry({ reader, visibilityOf }, c)
        const query = pageQuery(c, open.registry, type)
        const unchanged = notModified(c, open)
        if (unchanged !== undefined) return unchanged

        // One more than was asked for tells whether there is a next page.
        const rows = await reader.list({ ...query, type, visible: open.visible, limit: query.limit + 1 })
        const page = rows.slice(0, query.limit)
        const last = rows.length > query.limit ? page.at(-1) : undefined
        const { revision } = rows[0] ?? open
        const text = listText(type, page, last && encodeCursor(last, query.digest))
        return sendJson(c, text, revisionHeaders(c, { revision, tag: open.tag }))
      },
    },
    {
      ...common,
      id: `list${what}Versions`,
      path: `${base}/{entry}/versions`,
      parameters: entry,
      query: { include_deleted: includeDeleted },
      summary: `Lists all versions of a ${type}, newest first.`,
      answers: { 200: { description: 'The versions.', schema: list } },
      async handle(c) {
        const open = await openRegistry({ reader, visibilityOf }, c)
        const rows = await reader.versions({ ...versionQuery(c, open.registry), type, visible: open.visible })
        const [first] = rows
        if (first === undefined) throw new PublicError('not_found')
        const revision = { revision: first.revision, tag: open.tag }
        return notModified(c, revision) ?? sendJson(c, listText(type, rows), revisionHeaders(c, revision))
      },
    },
    {
      ...common,
      id: `get${what}Version`,
      path: `${base}/{entry}/versions/{version}`,
      parameters: { ...entry, version: versionParameter },
      query: { include_deleted: includeDeleted },
      summary: `Tells of one version of a ${type}.`,
      answers: { 200: { description: 'The version.', schema: version } },
      // VS Code asks this of each installed server, with `latest`.
      async handle(c) {
        const open = await openRegistry({ reader, visibilityOf }, c)
        const row = await reader.version({ ...versionQuery(c, open.registry), type, visible: open.visible })
        if (row === undefined) throw new PublicError('not_found')
        const revision = { revision: row.revision, tag: open.tag }
        return notModified(c, revision) ?? sendJson(c, versionText(type, row), revisionHeaders(c, revision))
      },
    },
  ]
}
