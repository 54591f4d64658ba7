import type { Context } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import { mayManage } from '../../authz/access.ts'
import { isServerName, isVersion } from '../../catalog/names.ts'
import type { EntryOutcome, NamedEntry } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { type Api, now } from '../request/context.ts'
import type { Operation, OperationDescription, RegistryEnv } from '../request/operation.ts'
import {
  claimsAnswer,
  claimsBody,
  entryName,
  entryType,
  sourceQuery,
  statusBody,
  versionName,
} from '../schemas/admin.ts'
import { param } from './reach.ts'

const common = { tag: 'entries', role: 'manageEntries', query: { source: sourceQuery } } as const
const ofClaims = {
  ...common,
  path: '/v1/entries/{type}/{entry}/claims',
  parameters: { type: entryType, entry: entryName },
} as const
const ofVersion = {
  ...common,
  path: '/v1/entries/{type}/{entry}/versions/{version}',
  parameters: { ...ofClaims.parameters, version: versionName },
  errors: ['forbidden_claims', 'read_only', 'not_found', 'invalid_request', 'source_required', 'conflict'],
} as const

const descriptions = {
  getClaims: {
    ...ofClaims,
    id: 'getClaims',
    method: 'get',
    summary: 'Tells the claims of an entry.',
    answers: { 200: { description: 'The claims.', schema: claimsAnswer } },
    errors: ['forbidden_claims', 'not_found', 'invalid_request', 'source_required'],
  },
  putClaims: {
    ...ofClaims,
    id: 'putClaims',
    method: 'put',
    summary: 'Replaces the claims of every version of an entry; `{}` clears them.',
    body: claimsBody,
    answers: { 204: { description: 'Replaced.' } },
    errors: ['forbidden_claims', 'read_only', 'not_found', 'source_required', 'conflict'],
  },
  setStatus: {
    ...ofVersion,
    id: 'setStatus',
    method: 'patch',
    path: `${ofVersion.path}/status`,
    summary: 'Marks a version as deprecated, or as active again.',
    body: statusBody,
    answers: { 204: { description: 'Marked.' } },
  },
  deleteVersion: {
    ...ofVersion,
    id: 'deleteVersion',
    method: 'delete',
    summary: 'Deletes a version; it may be published again.',
    answers: { 204: { description: 'Deleted.' } },
  },
} as const satisfies Record<string, OperationDescription>

type EntryApi = ReturnType<typeof createEntryApi>

interface FoundEntry extends NamedEntry {
  readonly isManaged: boolean
}

/** Lists the operations on published entries: their claims, and the status of their versions. */
export function entryOperations(api: Api): readonly Operation[] {
  const entries = createEntryApi(api)
  return [
    { ...descriptions.getClaims, handle: (c) => getClaims(entries, c) },
    { ...descriptions.putClaims, handle: (c) => putClaims(entries, c) },
    { ...descriptions.setStatus, handle: (c) => setStatus(entries, c) },
    { ...descriptions.deleteVersion, handle: (c) => deleteVersion(entries, c) },
  ]
}

/** Creates the state that the handlers of entries share. It compiles the schemas of bodies once. */
function createEntryApi(api: Api) {
  const largest = () => api.limits().bodyBytes
  return { ...api, readClaims: bodyReader(claimsBody, largest), readStatus: bodyReader(statusBody, largest) }
}

async function getClaims(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { claims } = await managedEntry(api, c)
  return c.json({ claims })
}

async function putClaims(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const entry = await changeableEntry(api, c)
  const { claims } = (await api.readClaims(c)).value
  if (!mayManage(c.var.actor, claims)) throw new PublicError('forbidden_claims')
  checkOutcome(await api.writer.setClaims({ ...readKey(entry), claims, expect: entry.claims, at: now() }))
  return c.body(null, 204)
}

async function setStatus(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const version = readVersion(c)
  const entry = await changeableEntry(api, c)
  const { status, statusMessage: message = null } = (await api.readStatus(c)).value
  const change = { ...readKey(entry), version, status, message, expect: entry.claims, at: now() }
  checkOutcome(await api.writer.setStatus(change))
  return c.body(null, 204)
}

async function deleteVersion(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const version = readVersion(c)
  const entry = await changeableEntry(api, c)
  checkOutcome(await api.writer.deleteVersion({ ...readKey(entry), version, expect: entry.claims, at: now() }))
  return c.body(null, 204)
}

/**
 * Finds the entry that a path names, if the caller holds its claims: the managed one that the caller can manage or
 * `source` names, else the first by name of the sources.
 */
async function managedEntry({ reader }: Api, c: Context<RegistryEnv>): Promise<FoundEntry> {
  const { actor } = c.var
  const type = param(c, 'type')
  const name = param(c, 'entry') || `${param(c, 'namespace')}/${param(c, 'short')}`
  const source = c.req.query('source') || undefined
  if (type !== 'server' && type !== 'skill') throw invalid([{ pointer: '/type', message: 'must be server or skill' }])

  if (!isServerName(name)) throw new PublicError('not_found')
  const [entries, sources] = await Promise.all([reader.entriesNamed(type, name), reader.sources()])
  const managedSources = new Set(sources.filter(({ config }) => config.managed !== undefined).map((one) => one.name))
  const named = entries
    .filter((entry) => source === undefined || entry.source === source)
    .map((entry) => ({ ...entry, isManaged: managedSources.has(entry.source) }))
  const managed = named.filter(({ isManaged }) => isManaged)
  const candidates = managed.length > 0 ? managed : named.toSorted((one, other) => (one.source < other.source ? -1 : 1))
  if (candidates.length === 0) throw new PublicError('not_found')

  const [first, second] = candidates.filter(({ claims }) => mayManage(actor, claims))
  if (first === undefined) throw new PublicError('forbidden_claims')
  if (second?.isManaged) throw new PublicError('source_required')
  return first
}

async function changeableEntry(api: Api, c: Context<RegistryEnv>): Promise<FoundEntry> {
  const entry = await managedEntry(api, c)
  if (!entry.isManaged) throw new PublicError('read_only')
  return entry
}

function readVersion(c: Context<RegistryEnv>): string {
  const version = param(c, 'version')
  if (isVersion(version)) return version
  throw invalid([{ pointer: '/version', message: 'must be one version of 1 to 255 characters, not `latest`' }])
}

const readKey = ({ source, type, name }: NamedEntry) => ({ source, type, name })

function checkOutcome(outcome: EntryOutcome): void {
  if (outcome === 'not_found') throw new PublicError('not_found')
  if (outcome === 'changed')
    throw new PublicError('conflict', { message: 'The entry’s claims were changed meanwhile.' })
}
