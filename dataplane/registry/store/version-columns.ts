import { type RawBuilder, sql } from 'kysely'
import type { Status } from '../catalog/official-meta.ts'

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

/** The columns of entry `e` and version `v` that an answer is made of. */
export const rowColumns: RawBuilder<unknown> = sql`
  e.name, v.version, v.status, v.status_message, v.status_changed_at, v.published_at, v.updated_at,
  case when v.id = e.latest_id then 1 else 0 end as is_latest, v.other_meta`

/** That of document `d`. */
export const documentColumn: RawBuilder<unknown> = sql`d.text as document`

/** All of them. */
export const versionColumns: RawBuilder<unknown> = sql`${rowColumns}, ${documentColumn}`

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
