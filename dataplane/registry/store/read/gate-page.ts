import { type Kysely, sql } from 'kysely'
import type { ClaimsMap } from '../../authz/claims.ts'
import type { GatePosition } from '../../catalog/cursor.ts'
import { type GateVersion, gateRow } from '../../catalog/gate-row.ts'
import type { Status } from '../../catalog/official-meta.ts'
import { precedence } from '../../catalog/precedence.ts'
import { createReadRevision } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { limitTo, numberLists, prepareStatement } from '../database/statement.ts'

export interface GatePage {
  /** The registry's revision that it shows; undefined if there is no such registry. */
  readonly revision: string | undefined
  readonly rows: readonly string[]
  /** The end of the page; undefined if nothing is behind it. */
  readonly end: GatePosition | undefined
}

export type ReadGatePage = (registry: number, after: GatePosition | undefined) => Promise<GatePage>

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

type Version = GateVersion & GatePosition

/** The most bytes of the rows of one page. What stands around them fits beside it into 8 MiB. */
const PAGE_BYTES = 8 * 1024 * 1024 - 64 * 1024
const STEP = 500
/** The most bytes of documents in memory at a time; a larger one is alone. */
const DOCUMENT_BYTES = 1024 * 1024
/** If the registry keeps changing during a read, the last of so many attempts counts. */
const ATTEMPTS = 5

/**
 * Creates the function that reads a page of the gate, at one revision: every version of every server, deleted ones too.
 */
export function createGatePage(database: Kysely<RegistryTables>): ReadGatePage {
  const lists = numberLists(database)
  const findClusters = createFindClusters(database)
  const readRevision = createReadRevision(database)
  const findNext = prepareStatement<
    RegistryTables,
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
  const readDocuments = prepareStatement<RegistryTables, { ids: unknown }, { id: number; text: string }>(
    database,
    (value) => sql<{ id: number; text: string }>`
      select d.id, d.text from ${lists.table(value('ids'))} c cross join document d where d.id = c.value`,
  )

  /** Adds the documents. A version that was removed meanwhile has none; this attempt does not count then. */
  async function withDocuments(found: readonly Found[], clusters: ReadonlySet<number>): Promise<Version[]> {
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

  /** Reads the versions behind a position, with so many documents at a time as may be in memory. */
  async function* versionsBehind(registry: number, first: GatePosition | undefined): AsyncGenerator<Version> {
    let after = first
    const clusters = await findClusters(registry)
    do {
      const found = await findNext({ registry, ...buildPosition(after), limit: STEP })
      for (const some of inPortions(found)) yield* await withDocuments(some, clusters)
      after = found.length < STEP ? undefined : found.at(-1)
    } while (after !== undefined)
  }

  async function read(registry: number, first: GatePosition | undefined): Promise<Omit<GatePage, 'revision'>> {
    const rows: string[] = []
    let end: GatePosition | undefined
    let bytes = 0
    for await (const one of versionsBehind(registry, first)) {
      const row = gateRow(one)
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
      // A page that is torn in the last attempt gets the older revision, so that the gateway asks for it again at once.
      if (left === 0 || (await readRevision(registry)) === revision) return { revision, ...page }
    }
  }
}

/** Creates the function that finds the Kubernetes sources of a registry. */
function createFindClusters(database: Kysely<RegistryTables>): (registry: number) => Promise<ReadonlySet<number>> {
  const find = prepareStatement<RegistryTables, { registry: number }, { id: number; config: string }>(
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

/** Splits rows so that the documents of each part are no more than `DOCUMENT_BYTES`, or one. */
function* inPortions(found: readonly Found[]): Generator<readonly Found[]> {
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
