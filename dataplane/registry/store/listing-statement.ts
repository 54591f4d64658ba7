import { type Kysely, type SqlBool, sql } from 'kysely'
import type { Status } from '../catalog/official-meta.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'

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

/** Which conditions a statement has; the values come with each run. */
export interface ListingShape {
  readonly order: 'name' | 'newest'
  /** Only the entry of one name. */
  readonly one?: boolean
  readonly version?: 'all' | 'latest' | 'exact'
  readonly after?: boolean
  readonly search?: boolean
  readonly updatedSince?: boolean
  readonly includeDeleted: boolean
}

export interface VersionValues {
  readonly registry: string
  readonly name?: string
  readonly limit?: number
  readonly afterName?: string
  readonly afterPrecedence?: string
  readonly pattern?: string
  readonly updatedSince?: string
  readonly precedence?: string
}

export type ListingStatement = (values: VersionValues) => Promise<VersionRow[]>

/**
 * Versions of servers that a registry shows: for each name those of one source alone, the first that has it.
 *
 * A page is a range of `listing`'s key, so its cost does not depend on how much lies before or behind it. Both orders name
 * the rank, for it is a part of that key: without it SQLite would sort what is in order already.
 */
export function listingStatement(database: Kysely<RegistryTables>, shape: ListingShape): ListingStatement {
  const statement = prepareStatement<RegistryTables, Required<VersionValues>, VersionRow>(database, (value) => {
    let query = database
      .selectFrom('registry as r')
      .innerJoin('listing as l', 'l.registry_id', 'r.id')
      .innerJoin('entry as e', 'e.id', 'l.entry_id')
      .innerJoin('entry_version as v', 'v.entry_id', 'e.id')
      .select((select) => [
        'l.name',
        'v.version',
        'v.status',
        'v.status_message',
        'v.status_changed_at',
        'v.published_at',
        'v.updated_at',
        select.case().when('v.id', '=', select.ref('e.latest_id')).then(1).else(0).end().as('is_latest'),
        'v.other_meta',
        'v.document',
        'r.revision',
      ])
      .where('r.name', '=', value('registry'))
      .where('l.type', '=', 'server')
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('listing as better')
              .select('better.rank')
              .whereRef('better.registry_id', '=', 'l.registry_id')
              .whereRef('better.type', '=', 'l.type')
              .whereRef('better.name', '=', 'l.name')
              .whereRef('better.rank', '<', 'l.rank'),
          ),
        ),
      )

    if (shape.one) query = query.where('l.name', '=', value('name'))
    if (shape.version === 'latest') query = query.whereRef('v.id', '=', 'e.latest_id')
    if (shape.version === 'exact') query = query.where('v.precedence', '=', value('precedence'))
    if (!shape.includeDeleted) query = query.where('v.status', '<>', 'deleted')
    if (shape.updatedSince) query = query.where('v.updated_at', '>', value('updatedSince'))
    if (shape.search)
      query = query.where(sql<SqlBool>`${sql.ref('v.search_text')} like ${value('pattern')} escape '\\'`)
    // `name >=` is the range; a comparison of (name, precedence) as one would span two tables and be none.
    if (shape.after)
      query = query
        .where('l.name', '>=', value('afterName'))
        .where((where) =>
          where.or([where('l.name', '>', value('afterName')), where('v.precedence', '>', value('afterPrecedence'))]),
        )

    return shape.order === 'newest'
      ? query.orderBy('l.rank').orderBy('v.precedence', 'desc')
      : query.orderBy('l.name').orderBy('l.rank').orderBy('v.precedence').limit(value('limit'))
  })
  // The shape says which placeholders there are, and the values come by the same shape.
  return (values) => statement(values as Required<VersionValues>)
}
