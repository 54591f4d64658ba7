import type { Context } from 'hono'
import { duplicates } from '../../../config/check/lists.ts'
import type { ClaimsMap } from '../../../identity/claims.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { type Actor, mayReach } from '../../authz/access.ts'
import type { RegistryRecord } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { answerJson } from '../request/caller-memory.ts'
import { type Api, now, type Operation, type OperationDescription, type RegistryEnv } from '../request/operation.ts'
import { newRegistryBody, registriesAnswer, registryAnswer, registryBody, registryName } from '../schemas/admin.ts'
import { checkGrant, checkName, findChangeable, readParam, requireChangeable, requireReach } from './reach.ts'

const common = { tag: 'registries', role: 'manageRegistries' } as const
const onOne = { ...common, path: '/v1/registries/{registry}', parameters: { registry: registryName } } as const

const descriptions = {
  list: {
    ...common,
    id: 'listRegistries',
    method: 'get',
    path: '/v1/registries',
    summary: 'Lists the registries that the caller may manage.',
    answers: { 200: { description: 'The registries, by name.', schema: registriesAnswer } },
    errors: [],
  },
  create: {
    ...common,
    id: 'createRegistry',
    method: 'post',
    path: '/v1/registries',
    summary: 'Creates a registry.',
    body: newRegistryBody,
    answers: { 201: { description: 'Created.', schema: registryAnswer } },
    errors: ['claims_not_subset', 'conflict'],
  },
  get: {
    ...onOne,
    id: 'getRegistry',
    method: 'get',
    summary: 'Gets a registry.',
    answers: { 200: { description: 'The registry.', schema: registryAnswer } },
    errors: ['not_found'],
  },
  put: {
    ...onOne,
    id: 'putRegistry',
    method: 'put',
    summary: 'Creates a registry, or replaces its sources and claims.',
    body: registryBody,
    answers: {
      200: { description: 'Changed.', schema: registryAnswer },
      201: { description: 'Created.', schema: registryAnswer },
    },
    errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
  },
  delete: {
    ...onOne,
    id: 'deleteRegistry',
    method: 'delete',
    summary: 'Deletes a registry; its sources stay.',
    answers: { 204: { description: 'Deleted.' } },
    errors: ['not_found', 'read_only', 'conflict'],
  },
} as const satisfies Record<string, OperationDescription>

type RegistryApi = ReturnType<typeof createRegistryApi>

export function registryOperations(api: Api): readonly Operation[] {
  const registries = createRegistryApi(api)
  return [
    { ...descriptions.list, handle: (c) => listRegistries(registries, c) },
    { ...descriptions.create, handle: (c) => createRegistry(registries, c) },
    { ...descriptions.get, handle: (c) => getRegistry(registries, c) },
    { ...descriptions.put, handle: (c) => putRegistry(registries, c) },
    { ...descriptions.delete, handle: (c) => deleteRegistry(registries, c) },
  ]
}

function createRegistryApi(api: Api) {
  const repeatedSources = ({ sources }: { sources: readonly string[] }) =>
    duplicates(sources, (name) => name, '/sources')
  return {
    ...api,
    readNewRegistry: bodyReader(newRegistryBody, api, repeatedSources),
    readRegistry: bodyReader(registryBody, api, repeatedSources),
  }
}

async function listRegistries({ reader }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const registries = await reader.registries()
  const reachable = registries.filter(({ claims }) => mayReach(c.var.actor, claims))
  return answerJson(c, { registries: reachable.map(buildAnswer) })
}

async function createRegistry(api: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, readNewRegistry } = api
  const { name, sources, claims = {} } = (await readNewRegistry(c)).value
  checkGrant(c.var.actor, claims)
  const expectSources = await claimsOfSources(api, c.var.actor, sources)
  const outcome = await writer.putRegistry({ name, sources, claims, create: true, expectSources, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome === 'taken') throw new PublicError('conflict', { message: 'A registry of this name exists already.' })
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'A source was changed or removed meanwhile.' })
  return c.json(await readAnswer(api, name), 201, { location: `/v1/registries/${name}` })
}

async function getRegistry({ reader }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  return c.json(buildAnswer(requireReach(c.var.actor, await reader.registry(readParam(c, 'registry')))))
}

async function putRegistry(api: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { reader, writer, readRegistry } = api
  const { actor } = c.var
  const name = readParam(c, 'registry')
  // This comes before the body, so that its findings tell callers without rights nothing. Reading takes time, so it is
  // repeated.
  findChangeable(actor, await reader.registry(name))
  const { name: nameInBody = name, sources, claims = {} } = (await readRegistry(c)).value
  const existing = findChangeable(actor, await reader.registry(name))
  checkName(name, nameInBody)
  checkGrant(actor, claims)
  const expectSources = await claimsOfSources(api, actor, sources)

  const create = existing === undefined
  const expect = { expectSources, ...(existing && { expect: existing.claims }) }
  const outcome = await writer.putRegistry({ name, sources, claims, create, ...expect, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
  return c.json(await readAnswer(api, name), create ? 201 : 200)
}

async function deleteRegistry({ reader, writer }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name, claims } = requireChangeable(c.var.actor, await reader.registry(readParam(c, 'registry')))
  const outcome = await writer.removeRegistry({ name, expect: claims })
  if (outcome === 'not_found') throw new PublicError('not_found')
  if (outcome === 'changed') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
  return c.body(null, 204)
}

async function readAnswer({ reader }: RegistryApi, name: string): Promise<object> {
  const registry = await reader.registry(name)
  if (registry === undefined) throw new PublicError('not_found')
  return buildAnswer(registry)
}

/** Returns the claims of the named sources, in order. A source that the caller may not know of counts as absent. */
async function claimsOfSources(
  { reader }: RegistryApi,
  actor: Actor,
  names: readonly string[],
): Promise<readonly ClaimsMap[]> {
  const found = await Promise.all(names.map((name) => reader.source(name)))
  const findings = found.flatMap((source, index): ErrorDetail[] =>
    source !== undefined && mayReach(actor, source.claims)
      ? []
      : [{ pointer: `/sources/${index}`, message: `there is no source ${JSON.stringify(names[index])}` }],
  )
  if (findings.length > 0) throw invalid(findings)
  return found.map((source) => source?.claims ?? {})
}

const tooMany = () => new PublicError('conflict', { message: 'The API can create at most 1,000 registries.' })

function buildAnswer({ name, sources, claims, origin, createdAt, updatedAt }: RegistryRecord): object {
  return { name, sources, claims, origin, createdAt, updatedAt }
}
