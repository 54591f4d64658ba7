import { isIP } from 'node:net'
import type { Context } from 'hono'
import { classifyAddress } from '../../../config/check/address.ts'
import { listUrls, sourceFindings } from '../../../config/check/registry-source.ts'
import { isLoopback } from '../../../config/check/url.ts'
import { findKind, type SourceConfig } from '../../../config/registry.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { mayReach } from '../../authz/access.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { SourceRecord, SourceSettings } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { answerJson } from '../request/caller-memory.ts'
import { type Api, now, type Operation, type OperationDescription, type RegistryEnv } from '../request/operation.ts'
import { QueryFindings, readFlag } from '../request/query.ts'
import {
  newSourceBody,
  sourceBody,
  sourceDetailAnswer,
  sourceName,
  sourcesAnswer,
  syncState,
  wait,
} from '../schemas/admin.ts'
import { checkGrant, checkName, findChangeable, readParam, requireChangeable, requireReach } from './reach.ts'

const common = { tag: 'sources', role: 'manageSources' } as const
const onOne = { ...common, path: '/v1/sources/{source}', parameters: { source: sourceName } } as const

const descriptions = {
  list: {
    ...common,
    id: 'listSources',
    method: 'get',
    path: '/v1/sources',
    summary: 'Lists the sources that the caller may manage.',
    answers: { 200: { description: 'The sources, by name.', schema: sourcesAnswer } },
    errors: [],
  },
  create: {
    ...common,
    id: 'createSource',
    method: 'post',
    path: '/v1/sources',
    summary: 'Creates a source.',
    body: newSourceBody,
    answers: { 201: { description: 'Created.', schema: sourceDetailAnswer } },
    errors: ['claims_not_subset', 'conflict'],
  },
  get: {
    ...onOne,
    id: 'getSource',
    method: 'get',
    summary: 'Gets a source, with its settings and the state of its syncs.',
    answers: { 200: { description: 'The source.', schema: sourceDetailAnswer } },
    errors: ['not_found'],
  },
  put: {
    ...onOne,
    id: 'putSource',
    method: 'put',
    summary: 'Creates a source, or replaces its settings and claims.',
    body: sourceBody,
    answers: {
      200: { description: 'Changed.', schema: sourceDetailAnswer },
      201: { description: 'Created.', schema: sourceDetailAnswer },
    },
    errors: ['not_found', 'claims_not_subset', 'read_only', 'conflict'],
  },
  delete: {
    ...onOne,
    id: 'deleteSource',
    method: 'delete',
    summary: 'Deletes a source with all its entries.',
    answers: { 204: { description: 'Deleted.' } },
    errors: ['not_found', 'read_only', 'conflict'],
  },
  sync: {
    ...onOne,
    id: 'syncSource',
    method: 'post',
    path: '/v1/sources/{source}/sync',
    summary: 'Starts a full pass over a source.',
    query: { wait },
    answers: {
      200: { description: 'The pass has ended.', schema: syncState },
      202: { description: 'The pass was started.', schema: syncState },
    },
    errors: ['not_found', 'conflict', 'invalid_request'],
  },
} as const satisfies Record<string, OperationDescription>

type SourceApi = ReturnType<typeof createSourceApi>

type SourceBody = Omit<SourceConfig, 'name'>

export function sourceOperations(api: Api): readonly Operation[] {
  const sources = createSourceApi(api)
  return [
    { ...descriptions.list, handle: (c) => listSources(sources, c) },
    { ...descriptions.create, handle: (c) => createSource(sources, c) },
    { ...descriptions.get, handle: (c) => getSource(sources, c) },
    { ...descriptions.put, handle: (c) => putSource(sources, c) },
    { ...descriptions.delete, handle: (c) => deleteSource(sources, c) },
    { ...descriptions.sync, handle: (c) => syncSource(sources, c) },
  ]
}

function createSourceApi(api: Api) {
  const findFaults = (body: SourceBody) => findSourceFaults(body, api.limits().privateSources)
  return {
    ...api,
    readNewSource: bodyReader(newSourceBody, api, findFaults),
    readSource: bodyReader(sourceBody, api, findFaults),
  }
}

async function listSources({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const sources = await reader.sources()
  const reachable = sources.filter(({ claims }) => mayReach(c.var.actor, claims))
  return answerJson(c, { sources: reachable.map((source) => buildSourceAnswer(source, syncs.state(source.name))) })
}

async function createSource(api: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { writer, syncs, readNewSource } = api
  const { name, claims = {}, ...config } = (await readNewSource(c)).value
  checkGrant(c.var.actor, claims)
  const outcome = await writer.putSource({ name, config, claims, create: true, at: now() })
  if (outcome === 'taken') throw new PublicError('conflict', { message: 'A source of this name exists already.' })
  if (outcome === 'too_many') throw tooMany()
  await syncs.changed()
  return c.json(await readDetail(api, name), 201, { location: `/v1/sources/${name}` })
}

async function getSource({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const source = requireReach(c.var.actor, await reader.source(readParam(c, 'source')))
  return c.json(buildDetailAnswer(source, syncs.state(source.name)))
}

async function putSource(api: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { reader, writer, syncs, readSource } = api
  const name = readParam(c, 'source')
  // This comes before the body, so that its findings tell callers without rights nothing. Reading takes time, so it is
  // repeated.
  findChangeable(c.var.actor, await reader.source(name))
  const { name: nameInBody = name, claims = {}, ...config } = (await readSource(c)).value
  const existing = findChangeable(c.var.actor, await reader.source(name))
  checkName(name, nameInBody)
  checkGrant(c.var.actor, claims)
  if (existing !== undefined) checkSameKind(existing, config)

  const create = existing === undefined
  const expect = existing && { expect: existing.claims }
  const outcome = await writer.putSource({ name, config, claims, create, ...expect, at: now() })
  if (outcome === 'too_many') throw tooMany()
  if (outcome !== 'done') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
  await syncs.changed()
  return c.json(await readDetail(api, name), create ? 201 : 200)
}

async function deleteSource({ reader, writer, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name, claims } = requireChangeable(c.var.actor, await reader.source(readParam(c, 'source')))
  const outcome = await writer.removeSource({ name, expect: claims })
  if (outcome === 'changed') throw new PublicError('conflict', { message: 'The source was changed meanwhile.' })
  if (outcome === 'in_use') throw new PublicError('conflict', { message: 'A registry uses this source.' })
  if (outcome === 'not_found') throw new PublicError('not_found')
  await syncs.changed()
  return c.body(null, 204)
}

async function syncSource({ reader, syncs }: SourceApi, c: Context<RegistryEnv>): Promise<Response> {
  const { name } = requireReach(c.var.actor, await reader.source(readParam(c, 'source')))
  const findings = new QueryFindings()
  const wait = readFlag('wait', c.req.query('wait'), findings)
  findings.throwIfAny()
  if (!(await syncs.syncNow(name, { wait })))
    throw new PublicError('conflict', { message: 'Nothing is synced into this source.' })
  const state = syncs.state(name)
  if (state === undefined) throw new PublicError('not_found')
  return c.json(buildSyncAnswer(state), wait ? 200 : 202)
}

async function readDetail({ reader, syncs }: SourceApi, name: string): Promise<object> {
  const source = await reader.source(name)
  if (source === undefined) throw new PublicError('not_found')
  return buildDetailAnswer(source, syncs.state(name))
}

function checkSameKind(existing: SourceRecord, config: SourceSettings): void {
  const [before, after] = [findKind(existing.config), findKind(config)]
  if (before !== after)
    throw invalid([{ pointer: `/${after}`, message: `must be ${before}: a source can’t change its type` }])
}

const tooMany = () =>
  new PublicError('conflict', { message: 'The API can create at most 1,000 sources, with 8 MiB of settings in all.' })

/** Finds what a schema can't check. A caller must not make this server send requests into its own network. */
function findSourceFaults(source: SourceBody, privateSources: 'allow' | 'deny'): readonly ErrorDetail[] {
  return [...sourceFindings(source, ''), ...findAddressFaults(source, privateSources)]
}

function findAddressFaults(source: SourceBody, privateSources: 'allow' | 'deny'): readonly ErrorDetail[] {
  return listUrls(source).flatMap(([text, pointer]) => {
    const url = URL.parse(text)
    if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
      return [{ pointer, message: 'must be an http or https URL' }]
    if (privateSources === 'allow' || isPublic(url)) return []
    return [{ pointer, message: 'is not a public address' }]
  })
}

function isPublic(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return !isLoopback(url) && (isIP(host) === 0 || classifyAddress(host) === 'public')
}

function buildSourceAnswer(source: SourceRecord, sync: SyncState | undefined): object {
  const { name, config, claims, origin, createdAt, updatedAt } = source
  return {
    name,
    ...config,
    claims,
    origin,
    createdAt,
    updatedAt,
    ...(sync !== undefined && { sync: buildSyncAnswer(sync) }),
  }
}

function buildDetailAnswer(source: SourceRecord, sync: SyncState | undefined): object {
  const { leftOut, problems } = sync ?? {}
  return { ...buildSourceAnswer(source, sync), ...(sync !== undefined && { leftOut, problems }) }
}

function buildSyncAnswer(sync: SyncState): object {
  const { state, lastAttempt, lastSuccess, nextRun, attempts, error, servers, skills } = sync
  return { state, lastAttempt, lastSuccess, nextRun, attempts, error, servers, skills }
}
