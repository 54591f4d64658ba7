import { type Kysely, sql } from 'kysely'
import type { Visible } from '../authz/visibility.ts'
import { numberLists } from './number-list.ts'
import type { EntryType, RegistryTables } from './schema.ts'
import { byShape, prepareStatement } from './statement.ts'
import {
  type FilterValues,
  type VersionFilter,
  type VersionRow,
  versionColumns,
  versionConditions,
} from './version-columns.ts'

export interface OneNameQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly name: string
  readonly version: VersionFilter['version']
  readonly includeDeleted: boolean
  readonly values: FilterValues
}

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly type: EntryType
  readonly name: string
  readonly sets: unknown
}

/** Makes the function that reads versions of one name, newest first: those of the first source that the caller sees. */
export function createOneName(database: Kysely<RegistryTables>): (query: OneNameQuery) => Promise<VersionRow[]> {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter, all: boolean) =>
    prepareStatement<RegistryTables, Values, VersionRow>(
      database,
      (value) => sql<VersionRow>`
            select ${versionColumns}, r.revision
            from registry r
              cross join entry e
              join entry_version v on v.entry_id = e.id
              join document d on d.id = v.document_id
            where r.id = ${value('registry')}
              and e.id = (
                select l.entry_id from listing l
                where l.registry_id = ${value('registry')} and l.type = ${value('type')} and l.name = ${value('name')}
                  ${all ? sql`` : sql`and l.claims_set in (${lists.select(value('sets'))})`}
                order by l.rank limit 1)
              ${versionConditions(filter, value)}
            order by v.precedence desc`,
    ),
  )

  return function readOneName({ registry, type, visible, name, version, includeDeleted, values }) {
    const all = visible === 'all'
    const run = statement({ version, includeDeleted }, all)
    // The shape says which placeholders there are, and the values come by the same shape.
    return run({ ...values, registry, type, name, ...(!all && { sets: lists.value(visible) }) } as Values)
  }
}
