import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { revisionColumn } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  type FilterValues,
  type FoundRow,
  type VersionFilter,
  versionColumns,
  versionConditions,
} from '../database/version-columns.ts'
import type { StorePageQuery } from './walk-step.ts'

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly type: string
  readonly versions: unknown
  readonly sets: unknown
  readonly limit: number
  readonly afterName: string
  readonly afterPrecedence: string
}

/**
 * Creates the function that reads a page of versions that an index has found. It reads each of them, so they must be
 * few.
 */
export function createFoundPage(database: Kysely<RegistryTables>) {
  const lists = numberLists(database)
  // The fence stops either database from merging the order into the outer query.
  const fence = isPostgres(database) ? sql`offset 0` : sql`limit -1`

  const statement = byShape((filter: VersionFilter, all: boolean) =>
    prepareStatement<RegistryTables, Values, FoundRow>(database, (value) => {
      const sees = (table: string) =>
        all ? sql`` : sql`and ${sql.ref(`${table}.claims_set`)} in (${lists.select(value('sets'))})`
      // The order comes before the check of visibility, which ends with the page.
      return sql<FoundRow>`
            select ${versionColumns}, ${revisionColumn(value)}
            from (
              select o.id, o.name, o.precedence
              from (
                select v.id, v.entry_id, e.name, v.precedence
                from ${lists.table(value('versions'))} f cross join entry_version v cross join entry e
                where v.id = f.value and e.id = v.entry_id
                  and (e.name > ${value('afterName')}
                    or e.name = ${value('afterName')} and v.precedence > ${value('afterPrecedence')})
                  ${versionConditions(filter, value)}
                order by e.name, v.precedence ${fence}) o
              where exists (
                select 1 from listing l where l.entry_id = o.entry_id
                  and l.registry_id = ${value('registry')} and l.type = ${value('type')} ${sees('l')}
                  and not exists (
                    select 1 from listing b where b.registry_id = l.registry_id and b.type = l.type and b.name = l.name
                      and b.rank < l.rank ${sees('b')}))
              ${limitTo(value('limit'))}) p
              cross join entry_version v
              cross join entry e
              cross join document d
            where v.id = p.id and e.id = v.entry_id and d.id = v.document_id
            order by p.name, p.precedence`
    }),
  )

  return function readFound(versions: readonly number[], query: StorePageQuery): Promise<FoundRow[]> {
    const { registry, type, visible, limit, after, filter, values } = query
    const all = visible === 'all'
    return statement(
      filter,
      all,
    )({
      ...values,
      registry,
      type,
      limit,
      versions: lists.value(versions),
      sets: all ? undefined : lists.value(visible),
      afterName: after?.name ?? '',
      afterPrecedence: after?.precedence ?? '',
    } as Values)
  }
}
