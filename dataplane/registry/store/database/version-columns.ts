import { hash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { IncomingVersion, Status } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import { searchText } from '../../catalog/search-text.ts'
import type { Database } from './schema.ts'
import { prepareStatement } from './statement.ts'

/** A version in the consumer API. `document` and `other_meta` are JSON texts. */
export interface VersionRow {
  readonly name: string
  readonly version: string
  readonly status: Status
  readonly status_message: string | null
  readonly status_changed_at: string
  readonly published_at: string
  readonly updated_at: string
  readonly is_latest: number
  readonly other_meta: string | null
  readonly document: string
  /** The registry's revision in the same snapshot. */
  readonly revision: string
}

/**
 * A version that was found. If its texts are large, `document` refers to them, and they are read later
 * (`version-page.ts`). A column for the reference would cost 1 % of a page.
 */
export type FoundRow = VersionRow

/** The texts of a version are large, and read separately, if they have more bytes. */
export const LARGE_BYTES = 64 * 1024

export interface LargeTexts {
  readonly version: number
  readonly bytes: number
}

/** Parses the reference to large texts; undefined if the texts are there. No document begins with a digit. */
export function parseLargeTexts({ document }: FoundRow): LargeTexts | undefined {
  const first = document.charCodeAt(0)
  if (first < 0x30 || first > 0x39) return undefined
  const [version, bytes] = document.split(' ').map(Number) as [number, number]
  return { version, bytes }
}

const isLarge = sql`v.bytes > ${sql.lit(LARGE_BYTES)}`
const unlessLarge = (text: RawBuilder<unknown>) => sql`case when ${isLarge} then null else ${text} end`

/** The columns of a version `v` of an entry `e`, without its document. */
export const rowColumns: RawBuilder<unknown> = sql`
  e.name, v.version, v.status, ${unlessLarge(sql`v.status_message`)} as status_message, v.status_changed_at,
  v.published_at, v.updated_at, case when v.id = e.latest_id then 1 else 0 end as is_latest,
  ${unlessLarge(sql`v.other_meta`)} as other_meta`

/** The reference to the large texts of `v`; null if they are not large. */
const reference = sql`case when ${isLarge} then v.id || ' ' || v.bytes end`

/** The columns that a subquery `p` adds, so that the document can be joined outside of it. */
export const referenceColumns: RawBuilder<unknown> = sql`v.document_id, ${reference} as large`

/** `rowColumns` of such a subquery. */
export const columnsOfRow: RawBuilder<unknown> = sql`
  p.name, p.version, p.status, p.status_message, p.status_changed_at, p.published_at, p.updated_at, p.is_latest,
  p.other_meta`

/** The document `d` for such a subquery. */
export const documentColumn: RawBuilder<unknown> = sql`coalesce(p.large, d.text) as document`

/** All columns of a version `v` of an entry `e` with its document `d`. */
export const versionColumns: RawBuilder<unknown> = sql`${rowColumns}, coalesce(${reference}, d.text) as document`

/** The shape of a filter on versions. Its values come with each run. */
export interface VersionFilter {
  readonly version: 'all' | 'latest' | 'exact'
  readonly search?: boolean
  readonly updatedSince?: boolean
  readonly includeDeleted: boolean
}

export interface FilterValues {
  readonly precedence?: string
  readonly pattern?: string
  readonly updatedSince?: string
}

type Placeholder = (name: keyof FilterValues) => RawBuilder<unknown>

/** Returns the conditions of a filter on `e` and `v`. They begin with `and`. */
export function versionConditions(filter: VersionFilter, value: Placeholder): RawBuilder<unknown> {
  const conditions = [sql``]
  if (filter.version === 'latest') conditions.push(sql`v.id = e.latest_id`)
  if (filter.version === 'exact') conditions.push(sql`v.precedence = ${value('precedence')}`)
  if (!filter.includeDeleted) conditions.push(sql`v.status <> 'deleted'`)
  if (filter.updatedSince) conditions.push(sql`v.updated_at > ${value('updatedSince')}`)
  if (filter.search) conditions.push(sql`v.search_text like ${value('pattern')} escape '\\'`)
  return sql.join(conditions, sql` and `)
}

export function deriveColumns(incoming: IncomingVersion) {
  const { type, name, version, title, description } = incoming
  return {
    type,
    name,
    version,
    precedence: precedence(version),
    status: incoming.status,
    status_message: incoming.statusMessage,
    status_changed_at: incoming.statusChangedAt,
    published_at: incoming.publishedAt,
    title,
    description,
    search_text: searchText(name, title, description),
    content_hash: hashContent(incoming),
    other_meta: incoming.others,
    bytes: countBytes(incoming.document) + countBytes(incoming.statusMessage) + countBytes(incoming.others),
  }
}

export const countBytes = (text: string | null): number => (text === null ? 0 : Buffer.byteLength(text))

/** Hashes all input of a version, so that an equal hash means an equal row. */
function hashContent(incoming: IncomingVersion): string {
  const { document, others, status, statusMessage, statusChangedAt, publishedAt, claims } = incoming
  const rest = JSON.stringify([status, statusMessage, statusChangedAt, publishedAt, others, claims])
  return hash('sha256', `${rest}\n${document}`, 'base64url')
}

/** Returns the registry's revision as a column, so that it comes from the same snapshot as the rest. */
export function revisionColumn(value: (name: 'registry') => RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(select revision from registry where id = ${value('registry')}) as revision`
}

export function createReadRevision(database: Database): (registry: number) => Promise<string | undefined> {
  const revisions = prepareStatement<{ registry: number }, { revision: string }>(
    database,
    (value) => sql<{ revision: string }>`select revision from registry where id = ${value('registry')}`,
  )
  return async (registry) => (await revisions({ registry }))[0]?.revision
}
