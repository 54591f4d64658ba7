import type { EntryType } from '../../catalog/entry.ts'
import type { Operation } from '../request/operation.ts'
import type { CatalogPath } from '../request/query.ts'
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

export const catalogIds = {
  server: { list: 'listServers', versions: 'listServerVersions', version: 'getServerVersion' },
  skill: { list: 'listSkills', versions: 'listSkillVersions', version: 'getSkillVersion' },
} as const satisfies Record<EntryType, Record<CatalogPath['kind'], string>>

export const catalogPaths = {
  server: pathsBelow(`${BASE}/servers`),
  skill: pathsBelow(`${BASE}/x/portico/skills`),
} as const satisfies Record<EntryType, Record<CatalogPath['kind'], string>>

function pathsBelow(list: string) {
  const versions = `${list}/{entry}/versions` as const
  return { list, versions, version: `${versions}/{version}` } as const
}

/**
 * The consumer API: servers as in the MCP registry API v0.1, and skills beside them. `catalogReads` answers it before
 * the app, since it gets most requests.
 */
export const catalogOperations: readonly Operation[] = [
  ...buildOperations('server'),
  ...buildOperations('skill'),
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

function buildOperations(type: EntryType): readonly Operation[] {
  const [list, version] = type === 'server' ? [serverList, serverVersion] : [skillList, skillVersion]
  const ids = catalogIds[type]
  const paths = catalogPaths[type]
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
      path: paths.list,
      parameters: { registry: registryParameter },
      query: listParameters,
      summary: `Lists versions of ${type}s, by name and precedence.`,
      answers: { 200: { description: PAGE, schema: list } },
    },
    {
      ...common,
      id: ids.versions,
      path: paths.versions,
      parameters: entry,
      query: versionsParameters,
      summary: `Lists the versions of a ${type}, newest first.`,
      answers: { 200: { description: VERSIONS, schema: list } },
    },
    {
      ...common,
      id: ids.version,
      path: paths.version,
      parameters: { ...entry, version: versionParameter },
      query: { include_deleted: includeDeleted },
      summary: `Gets one version of a ${type}.`,
      answers: { 200: { description: 'The version.', schema: version } },
    },
  ]
}
