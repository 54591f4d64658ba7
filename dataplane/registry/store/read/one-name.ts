import { type Kysely, sql } from 'kysely'
import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  type FilterValues,
  type FoundRow,
  type VersionFilter,
  versionColumns,
  versionConditions,
} from '../database/version-columns.ts'
import { type ReadAttempt, readConsistently } from './consistent-read.ts'
import { estimatePageBytes, type MakePage, PAGE_BYTES, type ReserveMemory, type VersionPage } from './large-texts.ts'

interface OneNameQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly name: string
  readonly version: VersionFilter['version']
  /** Restricts the result to versions that sort before it, which are older. */
  readonly before?: string | undefined
  readonly limit: number
  readonly includeDeleted: boolean
  readonly values: FilterValues
  readonly hold?: ReserveMemory | undefined
}

/** The most versions that one statement finds. So many may be in memory with texts that are just not large. */
const STEP = 100

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly type: EntryType
  readonly name: string
  readonly before: string
  readonly limit: number
  readonly sets: unknown
}

/** Creates the function that finds versions of one name, newest first, from the first source that the caller sees. */
function createOneStep(database: Kysely<RegistryTables>): (query: OneNameQuery) => Promise<FoundRow[]> {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter, all: boolean, goesOn: boolean) =>
    prepareStatement<RegistryTables, Values, FoundRow>(
      database,
      (value) => sql<FoundRow>`
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
              ${goesOn ? sql`and v.precedence < ${value('before')}` : sql``}
              ${versionConditions(filter, value)}
            order by v.precedence desc ${limitTo(value('limit'))}`,
    ),
  )

  return function findStep({ version, visible, before, includeDeleted, values, ...rest }) {
    const all = visible === 'all'
    const run = statement({ version, includeDeleted }, all, before !== undefined)
    return run({
      ...values,
      ...rest,
      ...(before !== undefined && { before }),
      ...(!all && { sets: lists.value(visible) }),
    } as Values)
  }
}

/** Creates the function that reads versions of one name: the newest first, or those that come after `before`. */
export function createOneName(
  database: Kysely<RegistryTables>,
  makePage: MakePage,
): (query: OneNameQuery) => Promise<VersionPage> {
  const step = createOneStep(database)

  async function find({ limit, ...query }: OneNameQuery): Promise<ReadAttempt> {
    const rows: FoundRow[] = []
    let bytes = 0
    let { before } = query
    for (;;) {
      const met = await step({ ...query, before, limit: Math.min(limit + 1 - rows.length, STEP) })
      for (const row of met) bytes += estimatePageBytes(row)
      rows.push(...met)
      const last = met.at(-1)
      if (last === undefined || met.length < STEP || rows.length > limit || bytes > PAGE_BYTES)
        return { rows, torn: rows.some(({ revision }) => revision !== rows[0]?.revision) }
      before = precedence(last.version)
    }
  }

  return function readOneName(query) {
    const { limit, registry, hold } = query
    return readConsistently(
      () => find(query),
      (rows, isLast) => makePage(rows, { limit, registry, isLast, hold }),
    )
  }
}
