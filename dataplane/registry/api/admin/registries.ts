import { duplicates } from '../../../config/check/duplicates.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import { answerJson } from '../request/answer-json.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { Operation } from '../request/operation.ts'
import { newRegistryBody, registriesAnswer, registryAnswer, registryBody, registryName } from '../schemas/admin.ts'
import { changeable, checkGrant, param, reached } from './reach.ts'
import { registryShape } from './shape.ts'
import { checkName } from './sources.ts'

const tooMany = () => new PublicError('conflict', { message: 'The API may make 1,000 registries.' })

/** Registries: what consumers read under one name. */
export function registryOperations(api: Api): readonly Operation[] {
  const { reader, writer, limits } = api
  const largest = () => limits().bodyBytes
  const twice = ({ sources }: { sources: readonly string[] }) => duplicates(sources, (name) => name, '/sources')
  const readNew = bodyReader(newRegistryBody, largest, twice)
  const readChanged = bodyReader(registryBody, largest, twice)
  const common = { tag: 'registries', role: 'manageRegistries' } as const
  const one = { ...common, path: '/v1/registries/{registry}', parameters: { registry: registryName } }

  const shape = async (name: string) => {
    const registry = await reader.registry(name)
    if (registry === undefined) throw new PublicError('not_found')
    return registryShape(registry)
  }
  const changeableRegistry = async (actor: Actor, name: string) => {
    const existing = await reader.registry(name)
    return existing && changeable(actor, existing)
  }
  /** Gives the claims of sources. One that the caller may not know of is one that isn't there. */
  const checkSources = async (actor: Actor, names: readonly string[]) => {
    const found = await Promise.all(names.map((name) => reader.source(name)))
    const findings = found.flatMap((source, index): ErrorDetail[] =>
      source !== undefined && mayReach(actor, source.claims)
        ? []
        : [{ pointer: `/sources/${index}`, message: `there is no source ${JSON.stringify(names[index])}` }],
    )
    if (findings.length > 0) throw invalid(findings)
    return found.map((source) => source?.claims ?? {})
  }

  return [
    {
      ...common,
      id: 'listRegistries',
      method: 'get',
      path: '/v1/registries',
      summary: 'Lists the registries that the caller may manage.',
      answers: { 200: { description: 'The registries, by name.', schema: registriesAnswer } },
      errors: [],
      async handle(c) {
        const registries = await reader.registries()
        const reachable = registries.filter(({ claims }) => mayReach(c.var.actor, claims))
        return answerJson(c, { registries: reachable.map(registryShape) })
      },
    },
    {
      ...common,
      id: 'createRegistry',
      method: 'post',
      path: '/v1/registries',
      summary: 'Creates a registry.',
      body: newRegistryBody,
      answers: { 201: { description: 'Created.', schema: registryAnswer } },
      errors: ['claims_not_subset', 'conflict'],
      async handle(c) {
        const { name, sources, claims = {} } = (await readNew(c)).value
        checkGrant(c.var.actor, claims)
        const expectSources = await checkSources(c.var.actor, sources)
        const outcome = await writer.putRegistry({ name, sources, claims, create: true, expectSources, at: now() })
        if (outcome === 'too_many') throw tooMany()
        if (outcome === 'taken') throw new PublicError('conflict', { message: 'There is a registry of this name.' })
        if (outcome !== 'done')
          throw new PublicError('conflict', { message: 'A source was changed or removed meanwhile.' })
        return c.json(await shape(name), 201, { location: `/v1/registries/${name}` })
      },
    },
    {
      ...one,
      id: 'getRegistry',
      method: 'get',
      summary: 'Tells of a registry.',
      answers: { 200: { description: 'The registry.', schema: registryAnswer } },
      errors: ['not_found'],
      async handle(c) {
        return c.json(registryShape(reached(c.var.actor, await reader.registry(param(c, 'registry')))))
      },
    },
    {
      ...one,
      id: 'putRegistry',
      method: 'put',
      summary: 'Creates a registry, or replaces its sources and claims.',
      body: registryBody,
      answers: {
        200: { description: 'Changed.', schema: registryAnswer },
        201: { description: 'Created.', schema: registryAnswer },
      },
      errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
      async handle(c) {
        const name = param(c, 'registry')
        await changeableRegistry(c.var.actor, name)
        const { name: named = name, sources, claims = {} } = (await readChanged(c)).value
        const existing = await changeableRegistry(c.var.actor, name)
        checkName(name, named)
        checkGrant(c.var.actor, claims)
        const expectSources = await checkSources(c.var.actor, sources)

        const create = existing === undefined
        const expect = { expectSources, ...(existing && { expect: existing.claims }) }
        const outcome = await writer.putRegistry({ name, sources, claims, create, ...expect, at: now() })
        if (outcome === 'too_many') throw tooMany()
        if (outcome !== 'done') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
        return c.json(await shape(name), create ? 201 : 200)
      },
    },
    {
      ...one,
      id: 'deleteRegistry',
      method: 'delete',
      summary: 'Deletes a registry; its sources stay.',
      answers: { 204: { description: 'Deleted.' } },
      errors: ['not_found', 'read_only', 'conflict'],
      async handle(c) {
        const { name, claims } = changeable(c.var.actor, await reader.registry(param(c, 'registry')))
        const outcome = await writer.removeRegistry({ name, expect: claims })
        if (outcome === 'not_found') throw new PublicError('not_found')
        if (outcome === 'changed') throw new PublicError('conflict', { message: 'The registry was changed meanwhile.' })
        return c.body(null, 204)
      },
    },
  ]
}
