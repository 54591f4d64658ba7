import type { Context } from 'hono'
import { PublicError } from '../../../server/errors.ts'
import { mayManage } from '../../authz/access.ts'
import { decodeEntryCursor, encodeEntryCursor } from '../../catalog/cursor.ts'
import { isServerName, isVersion } from '../../catalog/entry.ts'
import type { EntryOutcome, EntryPageQuery, EntryRecord, NamedEntry, RecordPage } from '../../store/database/records.ts'
import { bodyReader, invalid } from '../request/body.ts'
import { answerJson } from '../request/caller-memory.ts'
import { type Api, now, type Operation, type OperationDescription, type RegistryEnv } from '../request/operation.ts'
import { QueryFindings, readLimit } from '../request/query.ts'
import {
  claimsAnswer,
  claimsBody,
  cursor,
  entryName,
  entryType,
  limit,
  registryEntriesAnswer,
  registryName,
  sourceEntriesAnswer,
  sourceName,
  sourceQuery,
  statusBody,
  versionName,
} from '../schemas/admin.ts'
import { readParam, requireReach } from './reach.ts'

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

/** Builds the operations on published entries: their claims, and the status of their versions. */
export function entryOperations(api: Api): readonly Operation[] {
  const entries = createEntryApi(api)
  return [
    { ...descriptions.getClaims, handle: (c) => getClaims(entries, c) },
    { ...descriptions.putClaims, handle: (c) => putClaims(entries, c) },
    { ...descriptions.setStatus, handle: (c) => setStatus(entries, c) },
    { ...descriptions.deleteVersion, handle: (c) => deleteVersion(entries, c) },
  ]
}

function createEntryApi(api: Api) {
  return { ...api, readClaims: bodyReader(claimsBody, api), readStatus: bodyReader(statusBody, api) }
}

async function getClaims(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const { claims } = await findEntry(api, c)
  return c.json({ claims })
}

async function putClaims(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const entry = await findManagedEntry(api, c)
  const { claims } = (await api.readClaims(c)).value
  if (!mayManage(c.var.actor, claims)) throw new PublicError('forbidden_claims')
  checkOutcome(await api.writer.setClaims({ ...readKey(entry), claims, expect: entry.claims, at: now() }))
  return c.body(null, 204)
}

async function setStatus(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const version = readVersion(c)
  const entry = await findManagedEntry(api, c)
  const { status, statusMessage: message = null } = (await api.readStatus(c)).value
  const change = { ...readKey(entry), version, status, message, expect: entry.claims, at: now() }
  checkOutcome(await api.writer.setStatus(change))
  return c.body(null, 204)
}

async function deleteVersion(api: EntryApi, c: Context<RegistryEnv>): Promise<Response> {
  const version = readVersion(c)
  const entry = await findManagedEntry(api, c)
  checkOutcome(await api.writer.deleteVersion({ ...readKey(entry), version, expect: entry.claims, at: now() }))
  return c.body(null, 204)
}

/**
 * Finds the entry that a path names, in the source that `source` names if that is given. If managed sources have it,
 * others don't count; of the others the first by name does. Throws a PublicError if there is none, if the caller can't
 * manage it, or if it can manage the entry in several managed sources.
 */
async function findEntry({ reader }: Api, c: Context<RegistryEnv>): Promise<FoundEntry> {
  const { actor } = c.var
  const type = readParam(c, 'type')
  const name = readParam(c, 'entry') || `${readParam(c, 'namespace')}/${readParam(c, 'short')}`
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

async function findManagedEntry(api: Api, c: Context<RegistryEnv>): Promise<FoundEntry> {
  const entry = await findEntry(api, c)
  if (!entry.isManaged) throw new PublicError('read_only')
  return entry
}

function readVersion(c: Context<RegistryEnv>): string {
  const version = readParam(c, 'version')
  if (isVersion(version)) return version
  throw invalid([{ pointer: '/version', message: 'must be one version of 1 to 255 characters, not `latest`' }])
}

const readKey = ({ source, type, name }: NamedEntry) => ({ source, type, name })

function checkOutcome(outcome: EntryOutcome): void {
  if (outcome === 'not_found') throw new PublicError('not_found')
  if (outcome === 'changed')
    throw new PublicError('conflict', { message: 'The entry’s claims were changed meanwhile.' })
}

const PAGE_LIMITS = 'It has at most 8 MiB, and at most the newest 100 versions of each entry.'

/** Builds the operations that list all entries of a source or registry, hidden ones too, for those who manage it. */
export function listingOperations({ reader }: Api): readonly Operation[] {
  return [
    {
      id: 'listSourceEntries',
      tag: 'sources',
      role: 'manageSources',
      method: 'get',
      path: '/v1/sources/{source}/entries',
      parameters: { source: sourceName },
      query: { cursor, limit },
      summary: 'Lists the entries of a source.',
      answers: {
        200: { description: `A page of entries, by type and name. ${PAGE_LIMITS}`, schema: sourceEntriesAnswer },
      },
      errors: ['not_found', 'invalid_request'],
      async handle(c) {
        const { name } = requireReach(c.var.actor, await reader.source(readParam(c, 'source')))
        const page = readPageRequest(c, `source ${name}`)
        return answerPage(c, page, await reader.entriesOfSource(name, page), buildEntryAnswer)
      },
    },
    {
      id: 'listRegistryEntries',
      tag: 'registries',
      role: 'manageRegistries',
      method: 'get',
      path: '/v1/registries/{registry}/entries',
      parameters: { registry: registryName },
      query: { cursor, limit },
      summary: 'Lists the entries of all sources of a registry, including those that an earlier source hides.',
      answers: {
        200: {
          description: `A page of entries, by type, name and the order of sources. ${PAGE_LIMITS}`,
          schema: registryEntriesAnswer,
        },
      },
      errors: ['not_found', 'invalid_request'],
      async handle(c) {
        const { name } = requireReach(c.var.actor, await reader.registry(readParam(c, 'registry')))
        const page = readPageRequest(c, `registry ${name}`)
        const entries = await reader.entriesOfRegistry(name, page)
        return answerPage(c, page, entries, (entry) => ({ ...buildEntryAnswer(entry), source: entry.source }))
      },
    },
  ]
}

interface EntryPageRequest extends EntryPageQuery {
  /** The name of the list, to which cursors belong. */
  readonly list: string
}

function readPageRequest(c: Context<RegistryEnv>, list: string): EntryPageRequest {
  const findings = new QueryFindings()
  const limit = readLimit(c.req.query('limit'), findings)
  const cursorText = c.req.query('cursor') || undefined
  const after = cursorText === undefined ? undefined : decodeEntryCursor(cursorText, list)
  if (cursorText !== undefined && after === undefined) findings.add('cursor', 'is not a cursor of this list')
  findings.throwIfAny()
  return { limit, after, list }
}

function answerPage(
  c: Context<RegistryEnv>,
  { list }: EntryPageRequest,
  { entries, more }: RecordPage,
  shape: (entry: EntryRecord) => object,
): Response {
  const last = more ? entries.at(-1) : undefined
  const metadata = { count: entries.length, ...(last !== undefined && { nextCursor: encodeEntryCursor(last, list) }) }
  return answerJson(c, { entries: entries.map(shape), metadata })
}

function buildEntryAnswer({ type, name, claims, versions }: EntryRecord): object {
  return {
    type,
    name,
    claims,
    versions: versions.map(({ version, title, description, createdAt, updatedAt }) => ({
      version,
      ...(title !== null && { title }),
      ...(description !== null && { description }),
      createdAt,
      updatedAt,
    })),
  }
}
