import type { Context } from 'hono'
import { duplicates } from '../../../config/check/duplicates.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { RegistryRecord } from '../../store/database/records.ts'
import { answerJson } from '../request/answer-json.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { RegistryEnv } from '../request/operation.ts'
import { newRegistryBody, registryBody } from '../schemas/admin.ts'
import { changeable, checkGrant, checkName, param, reached } from './reach.ts'
import { registryShape } from './shape.ts'

type RegistryApi = ReturnType<typeof createRegistryApi>

/** What the handlers of registries work with; the schemas of bodies are compiled here, once. */
export function createRegistryApi(api: Api) {
  const { limits } = api
  const largest = () => limits().bodyBytes
  const repeatedSources = ({ sources }: { sources: readonly string[] }) =>
    duplicates(sources, (name) => name, '/sources')
  return {
    ...api,
    readNewRegistry: bodyReader(newRegistryBody, largest, repeatedSources),
    readRegistry: bodyReader(registryBody, largest, repeatedSources),
  }
}

export async function listRegistries({ reader }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const registries = await reader.registries()
  const reachable = registries.filter(({ claims }) => mayReach(c.var.actor, claims))
  return answerJson(c, { registries: reachable.map(registryShape) })
}

export async function createRegistry(api: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, readNewRegistry } = api
  const { name, sources, claims = {} } = (await readNewRegistry(c)).value
  checkGrant(c.var.actor, claims)
  const expectSources = await claimsOfSources(api, c.var.actor, sources)
  const outcome = await writer.putRegistry({ name, sources, claims, create: true, expectSources, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome === 'taken') throw new PublicError('conflict', { message: 'There is a registry of this name.' })
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'A source was changed or removed meanwhile.' })
  return c.json(await storedShape(api, name), 201, { location: `/v1/registries/${name}` })
}

export async function getRegistry({ reader }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  return c.json(registryShape(reached(c.var.actor, await reader.registry(param(c, 'registry')))))
}

export async function putRegistry(api: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, readRegistry } = api
  const { actor } = c.var
  const name = param(c, 'registry')
  // Checked before the body is read, so that nobody learns more by sending one, and again after it, which may take long.
  await changeableRegistry(api, actor, name)
  const { name: nameInBody = name, sources, claims = {} } = (await readRegistry(c)).value
  const existing = await changeableRegistry(api, actor, name)
  checkName(name, nameInBody)
  checkGrant(actor, claims)
  const expectSources = await claimsOfSources(api, actor, sources)

  const create = existing === undefined
  const expect = { expectSources, ...(existing && { expect: existing.claims }) }
  const outcome = await writer.putRegistry({ name, sources, claims, create, ...expect, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
  return c.json(await storedShape(api, name), create ? 201 : 200)
}

export async function deleteRegistry({ reader, writer }: RegistryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name, claims } = changeable(c.var.actor, await reader.registry(param(c, 'registry')))
  const outcome = await writer.removeRegistry({ name, expect: claims })
  if (outcome === 'not_found') throw new PublicError('not_found')
  if (outcome === 'changed') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
  return c.body(null, 204)
}

/** A registry as the API shows it after a change. */
async function storedShape({ reader }: RegistryApi, name: string): Promise<object> {
  const registry = await reader.registry(name)
  if (registry === undefined) throw new PublicError('not_found')
  return registryShape(registry)
}

async function changeableRegistry(
  { reader }: RegistryApi,
  actor: Actor,
  name: string,
): Promise<RegistryRecord | undefined> {
  const existing = await reader.registry(name)
  return existing && changeable(actor, existing)
}

/**
 * The claims of the sources that a registry is to have, in their order. A source that the caller may not know of counts as
 * absent: both are the same finding.
 */
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

const tooMany = () => new PublicError('conflict', { message: 'The API may make 1,000 registries.' })
