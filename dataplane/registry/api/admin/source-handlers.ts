import type { Context } from 'hono'
import { kindOf } from '../../../config/registry/source.ts'
import { PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { SourceRecord, SourceSettings } from '../../store/database/records.ts'
import { answerJson } from '../request/answer-json.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { RegistryEnv } from '../request/operation.ts'
import { QueryFindings, readFlag } from '../request/query-findings.ts'
import { newSourceBody, sourceBody } from '../schemas/admin.ts'
import { changeable, checkGrant, checkName, param, reached } from './reach.ts'
import { sourceDetail, sourceShape, syncShape } from './shape.ts'
import { apiSourceFindings } from './source-body.ts'

type SourceApi = ReturnType<typeof createSourceApi>

/** What the handlers of sources work with; the schemas of bodies are compiled here, once. */
export function createSourceApi(api: Api) {
  const { limits } = api
  const largest = () => limits().bodyBytes
  return {
    ...api,
    readNewSource: bodyReader(newSourceBody, largest, (body) => apiSourceFindings(body, limits().privateSources)),
    readSource: bodyReader(sourceBody, largest, (body) => apiSourceFindings(body, limits().privateSources)),
  }
}

export async function listSources({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const sources = await reader.sources()
  const reachable = sources.filter(({ claims }) => mayReach(c.var.actor, claims))
  return answerJson(c, { sources: reachable.map((source) => sourceShape(source, syncs.stateOf(source.name))) })
}

export async function createSource(api: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, syncs, readNewSource } = api
  const { name, claims = {}, ...config } = (await readNewSource(c)).value
  checkGrant(c.var.actor, claims)
  const outcome = await writer.putSource({ name, config, claims, create: true, at: now() })
  if (outcome === 'taken') throw new PublicError('conflict', { message: 'There is a source of this name.' })
  if (outcome === 'too_many') throw tooMany()
  await syncs.changed()
  return c.json(await storedShape(api, name), 201, { location: `/v1/sources/${name}` })
}

export async function getSource({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const source = reached(c.var.actor, await reader.source(param(c, 'source')))
  return c.json(sourceDetail(source, syncs.stateOf(source.name)))
}

export async function putSource(api: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, syncs, readSource } = api
  const name = param(c, 'source')
  // Checked before the body is read, so that nobody learns more by sending one, and again after it, which may take long.
  await changeableSource(api, c, name)
  const { name: nameInBody = name, claims = {}, ...config } = (await readSource(c)).value
  const existing = await changeableSource(api, c, name)
  checkName(name, nameInBody)
  checkGrant(c.var.actor, claims)
  if (existing !== undefined) checkSameKind(existing, config)

  const create = existing === undefined
  const expect = existing && { expect: existing.claims }
  const outcome = await writer.putSource({ name, config, claims, create, ...expect, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
  await syncs.changed()
  return c.json(await storedShape(api, name), create ? 201 : 200)
}

export async function deleteSource({ reader, writer, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name, claims } = changeable(c.var.actor, await reader.source(param(c, 'source')))
  const outcome = await writer.removeSource({ name, expect: claims })
  if (outcome === 'changed') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
  if (outcome === 'in_use') throw new PublicError('conflict', { message: 'A registry uses this source.' })
  if (outcome === 'not_found') throw new PublicError('not_found')
  await syncs.changed()
  return c.body(null, 204)
}

export async function syncSource({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name } = reached(c.var.actor, await reader.source(param(c, 'source')))
  const findings = new QueryFindings()
  const wait = readFlag('wait', c.req.query('wait'), findings)
  findings.throwIfAny()
  if (!(await syncs.run(name, { wait })))
    throw new PublicError('conflict', { message: 'Nothing is synced into this source.' })
  const state = syncs.stateOf(name)
  if (state === undefined) throw new PublicError('not_found')
  return c.json(syncShape(state), wait ? 200 : 202)
}

/** A source as the API shows it after a change. */
async function storedShape({ reader, syncs }: SourceApi, name: string): Promise<object> {
  const source = await reader.source(name)
  if (source === undefined) throw new PublicError('not_found')
  return sourceDetail(source, syncs.stateOf(name))
}

async function changeableSource(
  { reader }: SourceApi,
  c: Context<RegistryEnv>,
  name: string,
): Promise<SourceRecord | undefined> {
  const existing = await reader.source(name)
  return existing && changeable(c.var.actor, existing)
}

function checkSameKind(existing: SourceRecord, config: SourceSettings): void {
  const [before, after] = [kindOf(existing.config), kindOf(config)]
  if (before !== after) throw invalid([{ pointer: `/${after}`, message: `is not what this source is: ${before}` }])
}

const tooMany = () =>
  new PublicError('conflict', { message: 'The API may make 1,000 sources, with 8 MiB of settings together.' })
