import { kindOf } from '../../../config/registry-source.ts'
import { PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { Actor } from '../../authz/actor.ts'
import { answerJson } from '../request/answer-json.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { Operation } from '../request/operation.ts'
import {
  newSourceBody,
  sourceBody,
  sourceDetailAnswer,
  sourceName,
  sourcesAnswer,
  syncState,
  wait,
} from '../schemas/admin.ts'
import { changeable, checkGrant, param, reached } from './reach.ts'
import { sourceDetail, sourceShape, syncShape } from './shape.ts'
import { apiSourceFindings } from './source-body.ts'

/** Sources: where entries come from. */
export function sourceOperations(api: Api): readonly Operation[] {
  const { reader, writer, syncs, limits } = api
  const largest = () => limits().bodyBytes
  const readNew = bodyReader(newSourceBody, largest, (body) => apiSourceFindings(body, limits().privateSources))
  const readChanged = bodyReader(sourceBody, largest, (body) => apiSourceFindings(body, limits().privateSources))
  const common = { tag: 'sources', role: 'manageSources' } as const
  const one = { ...common, path: '/v1/sources/{source}', parameters: { source: sourceName } }
  const changeableSource = async (actor: Actor, name: string) => {
    const existing = await reader.source(name)
    return existing && changeable(actor, existing)
  }
  const shape = async (name: string) => {
    const source = await reader.source(name)
    if (source === undefined) throw new PublicError('not_found')
    return sourceDetail(source, syncs.stateOf(name))
  }

  return [
    {
      ...common,
      id: 'listSources',
      method: 'get',
      path: '/v1/sources',
      summary: 'Lists the sources that the caller may manage.',
      answers: { 200: { description: 'The sources, by name.', schema: sourcesAnswer } },
      errors: [],
      async handle(c) {
        const sources = await reader.sources()
        const reachable = sources.filter(({ claims }) => mayReach(c.var.actor, claims))
        return answerJson(c, { sources: reachable.map((source) => sourceShape(source, syncs.stateOf(source.name))) })
      },
    },
    {
      ...common,
      id: 'createSource',
      method: 'post',
      path: '/v1/sources',
      summary: 'Creates a source.',
      body: newSourceBody,
      answers: { 201: { description: 'Created.', schema: sourceDetailAnswer } },
      errors: ['claims_not_subset', 'conflict'],
      async handle(c) {
        const { name, claims = {}, ...config } = (await readNew(c)).value
        checkGrant(c.var.actor, claims)
        const outcome = await writer.putSource({ name, config, claims, create: true, at: now() })
        if (outcome === 'taken') throw new PublicError('conflict', { message: 'There is a source of this name.' })
        if (outcome === 'too_many') throw tooMany()
        await syncs.changed()
        return c.json(await shape(name), 201, { location: `/v1/sources/${name}` })
      },
    },
    {
      ...one,
      id: 'getSource',
      method: 'get',
      summary: 'Tells of a source: how it is set and how its syncs stand.',
      answers: { 200: { description: 'The source.', schema: sourceDetailAnswer } },
      errors: ['not_found'],
      async handle(c) {
        const source = reached(c.var.actor, await reader.source(param(c, 'source')))
        return c.json(sourceDetail(source, syncs.stateOf(source.name)))
      },
    },
    {
      ...one,
      id: 'putSource',
      method: 'put',
      summary: 'Creates a source, or replaces its settings and claims.',
      body: sourceBody,
      answers: {
        200: { description: 'Changed.', schema: sourceDetailAnswer },
        201: { description: 'Created.', schema: sourceDetailAnswer },
      },
      errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
      async handle(c) {
        const name = param(c, 'source')
        // Before the body comes, so that nobody learns more by sending one; and when it has, which may take long.
        await changeableSource(c.var.actor, name)
        const { name: named = name, claims = {}, ...config } = (await readChanged(c)).value
        const existing = await changeableSource(c.var.actor, name)
        checkName(name, named)
        checkGrant(c.var.actor, claims)
        if (existing !== undefined && kindOf(existing.config) !== kindOf(config))
          throw invalid([
            { pointer: `/${kindOf(config)}`, message: `is not what this source is: ${kindOf(existing.config)}` },
          ])

        const create = existing === undefined
        const expect = existing && { expect: existing.claims }
        const outcome = await writer.putSource({ name, config, claims, create, ...expect, at: now() })
        if (outcome === 'too_many') throw tooMany()
        if (outcome !== 'done') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
        await syncs.changed()
        return c.json(await shape(name), create ? 201 : 200)
      },
    },
    {
      ...one,
      id: 'deleteSource',
      method: 'delete',
      summary: 'Deletes a source with all its entries.',
      answers: { 204: { description: 'Deleted.' } },
      errors: ['not_found', 'read_only', 'conflict'],
      async handle(c) {
        const { name, claims } = changeable(c.var.actor, await reader.source(param(c, 'source')))
        const outcome = await writer.removeSource({ name, expect: claims })
        if (outcome === 'changed') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
        if (outcome === 'in_use') throw new PublicError('conflict', { message: 'A registry uses this source.' })
        if (outcome === 'not_found') throw new PublicError('not_found')
        await syncs.changed()
        return c.body(null, 204)
      },
    },
    {
      ...common,
      id: 'syncSource',
      method: 'post',
      path: '/v1/sources/{source}/sync',
      parameters: one.parameters,
      summary: 'Starts a full pass over a source.',
      query: { wait },
      answers: {
        200: { description: 'The pass has ended.', schema: syncState },
        202: { description: 'The pass was started.', schema: syncState },
      },
      errors: ['not_found', 'conflict', 'invalid_request'],
      async handle(c) {
        const { name } = reached(c.var.actor, await reader.source(param(c, 'source')))
        const waits = c.req.query('wait') || 'false'
        if (waits !== 'true' && waits !== 'false')
          throw invalid([{ pointer: '/wait', message: 'must be true or false' }])
        if (!(await syncs.run(name, { wait: waits === 'true' })))
          throw new PublicError('conflict', { message: 'Nothing is synced into this source.' })
        const state = syncs.stateOf(name)
        if (state === undefined) throw new PublicError('not_found')
        return c.json(syncShape(state), waits === 'true' ? 200 : 202)
      },
    },
  ]
}

const tooMany = () =>
  new PublicError('conflict', { message: 'The API may make 1,000 sources, with 8 MiB of settings together.' })

/** A PUT can't rename, and a name that is created must be one. */
export function checkName(inPath: string, inBody: string): void {
  if (inBody !== inPath) throw invalid([{ pointer: '/name', message: 'is not the name in the path' }])
  if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(inPath) || inPath.length > 63)
    throw invalid([{ pointer: '/name', message: 'must be a lower-case DNS label of at most 63 characters' }])
}
