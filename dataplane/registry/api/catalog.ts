import type { EntryType } from '../store/schema.ts'
import type { CatalogPath } from './catalog-path.ts'
import type { Operation } from './operation.ts'
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

const BASE = '/registry/{registry}/v0.1'

/** Names of the operations, by what a path asks for. */
export const catalogIds = {
  server: { list: 'listServers', versions: 'listServerVersions', version: 'getServerVersion' },
  skill: { list: 'listSkills', versions: 'listSkillVersions', version: 'getSkillVersion' },
} as const satisfies Record<EntryType, Record<CatalogPath['asks'], string>>

/**
 * The consumer API: what a registry shows. Servers as in the MCP registry API v0.1, skills beside it in the same way.
 * It is asked far more often than everything else, so `catalogReads` answers it before the app.
 */
export const catalogOperations: readonly Operation[] = [
  ...operationsOf('server', `${BASE}/servers`),
  ...operationsOf('skill', `${BASE}/x/portico/skills`),
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
      answers: { 200: { description: 'A page.', schema: list } },
    },
    {
      ...common,
      id: ids.versions,
      path: `${base}/{entry}/versions`,
      parameters: entry,
      query: { include_deleted: includeDeleted },
      summary: `Lists all versions of a ${type}, newest first.`,
      answers: { 200: { description: 'The versions.', schema: list } },
    },
    {
      ...common,
      id: ids.version,
      path: `${base}/{entry}/versions/{version}`,
      parameters: { ...entry, version: versionParameter },
      query: { include_deleted: includeDeleted },
      summary: `Tells of one version of a ${type}.`,
      answers: { 200: { description: 'The version.', schema: version } },
    },
  ]
}
