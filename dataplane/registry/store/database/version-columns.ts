import { type RawBuilder, sql } from 'kysely'
import type { Status } from '../../catalog/official-meta.ts'

/** One version as the consumer API shows it. `document` and `other_meta` are JSON texts. */
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
 * A version as it is found: texts that are large are null, and read when it is known that there is room for them
 * (`large-texts.ts`).
 */
export interface FoundRow extends Omit<VersionRow, 'document'> {
  readonly document: string | null
  readonly version_id: number
  /** Bytes of its document and of what is shown beside it. */
  readonly bytes: number
}

/** The texts of a version that has more bytes are not read at once with others. */
export const LARGE_BYTES = 16 * 1024

const unlessLarge = (text: RawBuilder<unknown>, bytes: RawBuilder<unknown>) =>
  sql`case when ${bytes} > ${sql.lit(LARGE_BYTES)} then null else ${text} end`
const bytes = sql`v.bytes`

/** The columns of entry `e` and version `v` that an answer is made of. */
export const rowColumns: RawBuilder<unknown> = sql`
  v.id as version_id, e.name, v.version, v.status, ${unlessLarge(sql`v.status_message`, bytes)} as status_message,
  v.status_changed_at, v.published_at, v.updated_at, case when v.id = e.latest_id then 1 else 0 end as is_latest,
  ${unlessLarge(sql`v.other_meta`, bytes)} as other_meta, v.bytes`

/** The same of a subquery `p` that has them: each column that nobody needs costs as much as one that is needed. */
export const columnsOfRow: RawBuilder<unknown> = sql`
  p.version_id, p.name, p.version, p.status, p.status_message, p.status_changed_at, p.published_at, p.updated_at,
  p.is_latest, p.other_meta, p.bytes`

/** That of document `d`, beside a subquery `p` that has those. */
export const documentColumn: RawBuilder<unknown> = sql`${unlessLarge(sql`d.text`, sql`p.bytes`)} as document`

/** All of them. */
export const versionColumns: RawBuilder<unknown> = sql`
  ${rowColumns}, ${unlessLarge(sql`d.text`, bytes)} as document`

/** Which versions an answer has; the values come with each run. */
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

/** The conditions of a filter on entry `e` and version `v`, beginning with `and`. */
export function versionConditions(filter: VersionFilter, value: Placeholder): RawBuilder<unknown> {
  const conditions = [sql``]
  if (filter.version === 'latest') conditions.push(sql`v.id = e.latest_id`)
  if (filter.version === 'exact') conditions.push(sql`v.precedence = ${value('precedence')}`)
  if (!filter.includeDeleted) conditions.push(sql`v.status <> 'deleted'`)
  if (filter.updatedSince) conditions.push(sql`v.updated_at > ${value('updatedSince')}`)
  if (filter.search) conditions.push(sql`v.search_text like ${value('pattern')} escape '\\'`)
  return sql.join(conditions, sql` and `)
}
