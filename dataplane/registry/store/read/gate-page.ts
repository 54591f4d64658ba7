import { sql } from 'kysely'
import { isObject } from '../../../../crds/settings/json.ts'
import type { ClaimsMap } from '../../../identity/claims.ts'
import type { GatePosition } from '../../catalog/cursor.ts'
import { listMembers, PUBLISHER_PROVIDED, type Status } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import type { Database } from '../database/schema.ts'
import { limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import { createReadRevision } from '../database/version-columns.ts'

export interface GatePage {
  /** The registry's revision; undefined if there is no such registry. */
  readonly revision: string | undefined
  readonly rows: readonly string[]
  /** The end of the page; undefined if it is the last one. */
  readonly end: GatePosition | undefined
}

type ReadGatePage = (registry: number, after: GatePosition | undefined) => Promise<GatePage>

interface Found {
  readonly name: string
  readonly rank: number
  readonly version: string
  readonly status: Status
  readonly claims: string
  readonly bytes: number
  readonly document_id: number
  readonly source_id: number
}

/** A version of a server in the store. `document` is JSON text. */
interface Version extends Omit<Found, 'claims'> {
  readonly claims: ClaimsMap
  readonly document: string
  /** True if it comes from a Kubernetes source. Only these documents can be trusted to name objects. */
  readonly isOfCluster: boolean
}

/** The most bytes of the rows of a page. With the rest of an answer they fit into 8 MiB. */
const PAGE_BYTES = 8 * 1024 * 1024 - 64 * 1024
const STEP = 500
/** The most bytes of documents in memory at a time, unless one document is larger. */
const DOCUMENT_BYTES = 1024 * 1024
/** If the registry keeps changing during a read, the last of these attempts counts. */
const ATTEMPTS = 5

/**
 * Creates the function that reads a page of the gate: all versions of all servers, deleted ones too, at one revision.
 */
export function createGatePage(database: Database): ReadGatePage {
  const lists = numberLists(database)
  const findClusters = createFindClusters(database)
  const readRevision = createReadRevision(database)
  const findNext = prepareStatement<
    { registry: number; name: string; rank: number; precedence: string; limit: number },
    Found
  >(
    database,
    (value) => sql<Found>`
      select l.name, l.rank, v.version, v.status, c.claims, v.bytes, v.document_id, e.source_id
      from listing l join entry e on e.id = l.entry_id join entry_version v on v.entry_id = e.id
        join claims_set c on c.id = l.claims_set
      where l.registry_id = ${value('registry')} and l.type = 'server' and l.name >= ${value('name')}
        and (l.name, l.rank, v.precedence) > (${value('name')}, ${value('rank')}, ${value('precedence')})
      order by l.name, l.rank, v.precedence ${limitTo(value('limit'))}`,
  )
  const readDocuments = prepareStatement<{ ids: unknown }, { id: number; text: string }>(
    database,
    (value) => sql<{ id: number; text: string }>`
      select d.id, d.text from ${lists.table(value('ids'))} c cross join document d where d.id = c.value`,
  )

  /** Adds the documents. A version that was removed meanwhile has none; then the page is read again. */
  async function addDocuments(found: readonly Found[], clusters: ReadonlySet<number>): Promise<Version[]> {
    const documents = await readDocuments({ ids: lists.value(found.map(({ document_id }) => document_id)) })
    const texts = new Map(documents.map(({ id, text }) => [id, text]))
    return found.flatMap((one) => {
      const document = texts.get(one.document_id)
      const isOfCluster = clusters.has(one.source_id)
      return document === undefined
        ? []
        : { ...one, claims: JSON.parse(one.claims) as ClaimsMap, document, isOfCluster }
    })
  }

  /** Reads the versions after a position, with a bounded number of documents in memory. */
  async function* readAfter(registry: number, first: GatePosition | undefined): AsyncGenerator<Version> {
    let after = first
    const clusters = await findClusters(registry)
    do {
      const found = await findNext({ registry, ...buildPosition(after), limit: STEP })
      for (const some of splitByBytes(found)) yield* await addDocuments(some, clusters)
      after = found.length < STEP ? undefined : found.at(-1)
    } while (after !== undefined)
  }

  async function read(registry: number, first: GatePosition | undefined): Promise<Omit<GatePage, 'revision'>> {
    const rows: string[] = []
    let end: GatePosition | undefined
    let bytes = 0
    for await (const one of readAfter(registry, first)) {
      const row = buildRow(one)
      bytes += Buffer.byteLength(row) + 1
      if (bytes > PAGE_BYTES && end !== undefined) return { rows, end }
      rows.push(row)
      const { name, rank, version } = one
      end = { name, rank, version }
    }
    return { rows, end: undefined }
  }

  return async function readGatePage(registry, after) {
    for (let left = ATTEMPTS; ; left--) {
      const revision = await readRevision(registry)
      const page = await read(registry, after)
      // If the last attempt is torn too, it has the older revision, so that the gateway soon asks again.
      if (left === 0 || (await readRevision(registry)) === revision) return { revision, ...page }
    }
  }
}

function createFindClusters(database: Database): (registry: number) => Promise<ReadonlySet<number>> {
  const find = prepareStatement<{ registry: number }, { id: number; config: string }>(
    database,
    (value) => sql<{ id: number; config: string }>`
      select s.id, s.config from registry_source r join source s on s.id = r.source_id
      where r.registry_id = ${value('registry')} and s.config like '%"kubernetes"%'`,
  )
  return async function findClusters(registry) {
    const found = await find({ registry })
    return new Set(found.filter(({ config }) => 'kubernetes' in JSON.parse(config)).map(({ id }) => id))
  }
}

const buildPosition = (after: GatePosition | undefined) => ({
  name: after?.name ?? '',
  rank: after?.rank ?? -1,
  precedence: after === undefined ? '' : precedence(after.version),
})

/** Splits rows into parts whose documents have at most `DOCUMENT_BYTES`, or are a single larger one. */
function* splitByBytes(found: readonly Found[]): Generator<readonly Found[]> {
  let from = 0
  let bytes = 0
  for (const [index, row] of found.entries()) {
    if (bytes + row.bytes > DOCUMENT_BYTES && index > from) {
      yield found.slice(from, index)
      from = index
      bytes = 0
    }
    bytes += row.bytes
  }
  if (from < found.length) yield found.slice(from)
}

const KUBERNETES = ['kind', 'namespace', 'name', 'uid'] as const

/** Builds a row of the gate as JSON text: what a gateway needs to find its backends, and the claims. */
function buildRow({ name, version, status, claims, document, isOfCluster }: Version): string {
  const { remotes, packages, _meta } = JSON.parse(document) as Readonly<Record<string, unknown>>
  return JSON.stringify({
    name,
    version,
    status,
    claims,
    remotes: pickFromList(remotes, ['type', 'url']),
    packages: pickFromList(packages, ['registryType', 'registryBaseUrl', 'identifier', 'version', 'fileSha256']),
    kubernetes: isOfCluster ? findKubernetes(_meta) : undefined,
  })
}

function pickFromList(list: unknown, members: readonly string[]): object[] {
  if (!Array.isArray(list)) return []
  return list.filter(isObject).map((item) => pickTexts(item, members))
}

function pickTexts(item: Readonly<Record<string, unknown>>, members: readonly string[]): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const member of members) {
    const value = Object.hasOwn(item, member) ? item[member] : undefined
    if (typeof value === 'string') texts[member] = value
  }
  return texts
}

/** Finds the object that the entry of a cluster was made of (`sources/kubernetes`). */
function findKubernetes(meta: unknown): object | undefined {
  return listMembers(readMember(meta, PUBLISHER_PROVIDED))
    .flatMap(listMembers)
    .map((block) => readMember(readMember(block, 'metadata'), 'kubernetes'))
    .filter(isObject)
    .map((found) => pickTexts(found, KUBERNETES))
    .find((named) => KUBERNETES.every((member) => named[member] !== undefined))
}

const readMember = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined)
