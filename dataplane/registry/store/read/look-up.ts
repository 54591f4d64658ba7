import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry-type.ts'
import { numberLists } from '../database/number-list.ts'
import { revisionColumn } from '../database/revision-of.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byShape, prepareStatement } from '../database/statement.ts'
import { type FoundRow, versionColumns } from '../database/version-columns.ts'
import { batchCalls } from './batch-calls.ts'

export interface LookUpQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly name: string
  readonly includeDeleted: boolean
}

interface Values {
  readonly registry: number
  readonly type: EntryType
  readonly names: unknown
  readonly sets: unknown
}

/** A row, and the index of its name among those that were asked for. */
type Row = FoundRow & { readonly key: number }

/** Most names of one statement. */
const MOST = 32
/** Statements that run at a time for one kind of caller: one that is slow does not hold up all. */
const AT_ONCE = 2

/**
 * Makes the function that reads the latest version of a name: of the first source that the caller sees. Names that are
 * asked for at once are read by one statement: on PostgreSQL most of a look-up is what a statement costs, whatever it
 * reads.
 */
export function createLookUp(database: Kysely<RegistryTables>): (query: LookUpQuery) => Promise<FoundRow | undefined> {
  const lists = numberLists(database)
  const postgres = isPostgres(database)

  const statement = byShape((includeDeleted: boolean, all: boolean) =>
    prepareStatement<RegistryTables, Values, Row>(database, (value) => {
      // Behind a query the length of the list is no reason for PostgreSQL to plan anew, which took 1 ms each time.
      const names = postgres
        ? sql`unnest((select ${value('names')}::text[])) with ordinality as c(value, key)`
        : sql`json_each(${value('names')}) c`
      return sql<Row>`
            select c.key, ${versionColumns}, ${revisionColumn(value)}
            from ${names}
              cross join entry e
              cross join entry_version v
              cross join document d
            where e.id = (
                select l.entry_id from listing l
                where l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name = c.value
                  ${all ? sql`` : sql`and l.claims_set in (${lists.select(value('sets'))})`}
                order by l.rank limit 1)
              and v.entry_id = e.id
              and d.id = v.document_id
              and v.id = e.latest_id
              ${includeDeleted ? sql`` : sql`and v.status <> 'deleted'`}`
    }),
  )

  return batchCalls<LookUpQuery, FoundRow | undefined>({
    most: MOST,
    atOnce: AT_ONCE,
    keyOf: ({ registry, type, visible, includeDeleted }) => `${registry} ${type} ${includeDeleted} ${visible}`,
    async run(queries) {
      const [{ registry, type, visible, includeDeleted }] = queries as readonly [LookUpQuery]
      const names = queries.map(({ name }) => name)
      const all = visible === 'all'
      const rows = await statement(
        includeDeleted,
        all,
      )({
        registry,
        type,
        names: postgres ? names : JSON.stringify(names),
        sets: all ? undefined : lists.value(visible),
      })
      // PostgreSQL counts from 1.
      const byIndex = new Map(rows.map((row) => [postgres ? row.key - 1 : row.key, row]))
      return names.map((_, index) => byIndex.get(index))
    },
  })
}
