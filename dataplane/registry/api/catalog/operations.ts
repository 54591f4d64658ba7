import type { EntryType } from '../../catalog/entry-type.ts'
import type { CatalogPath } from '../request/catalog-path.ts'
import type { Operation } from '../request/operation.ts'
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
  versionsParameters,
} from '../schemas/catalog.ts'

const BASE = '/registry/{registry}/v0.1'

const BOUND =
  'It ends at 8 MiB of documents, however many were asked for; `nextCursor` is there as long as there are more.'
const PAGE = `A page. ${BOUND}`
const VERSIONS = `All versions where they are no more than 1,000, else the newest of them. ${BOUND}`

/** Names of the operations, by what a path asks for. */
export const catalogIds = {
  server: { list: 'listServers', versions: 'listServerVersions', version: 'getServerVersion' },
  skill: { list: 'listSkills', versions: 'listSkillVersions', version: 'getSkillVersion' },
} as const satisfies Record<EntryType, Record<CatalogPath['kind'], string>>

/**
 * The consumer API: what a registry shows. Servers as in the MCP registry API v0.1, skills beside it in the same way.
 * It is asked far more often than everything else, so `catalogReads` answers it before the app.
 */
export const catalogOperations: readonly Operation[] = [
  ...operationsOf('server', `${BASE}/servers`),
  ...operationsOf('skill', `${BASE}/x/portico/skills`),
  {
    id: 'getSkill',
    tag: 'catalog',
    method: 'get',
    path: `${BASE}/x/portico/skills/{entry}`,
    parameters: { registry: registryParameter, entry: entryParameter },
    query: { include_deleted: includeDeleted },
    summary: 'Gets the latest version of a skill.',
    answers: { 200: { description: 'The version.', schema: skillVersion } },
    errors: ['forbidden_claims', 'not_found', 'invalid_request'],
  },
]

function operationsOf(type: EntryType, base: string): readonly Operation[] {
  const [list, version] = type === 'server' ? [serverList, serverVersion] : [skillList, skillVersion]
  const ids = catalogIds[type]
  const entry = { registry: registryParameter, entry: entryParameter }
  const common = {
    tag: 'catalog',
    method: 'get',
    errors: ['forbidden_claims', 'not_found', 'invalid_request'],
  } as const

  return [
    {
      ...common,
      id: ids.list,
      path: base,
      parameters: { registry: registryParameter },
      query: listParameters,
      summary: `Lists versions of ${type}s, by name and precedence.`,
      answers: { 200: { description: PAGE, schema: list } },
    },
    {
      ...common,
      id: ids.versions,
      path: `${base}/{entry}/versions`,
      parameters: entry,
      query: versionsParameters,
      summary: `Lists the versions of a ${type}, newest first.`,
      answers: { 200: { description: VERSIONS, schema: list } },
    },
    {
      ...common,
      id: ids.version,
      path: `${base}/{entry}/versions/{version}`,
      parameters: { ...entry, version: versionParameter },
      query: { include_deleted: includeDeleted },
      summary: `Gets one version of a ${type}.`,
      answers: { 200: { description: 'The version.', schema: version } },
    },
  ]
}
