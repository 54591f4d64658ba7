import { type Kysely, sql } from 'kysely'
import { numberLists } from '../database/number-list.ts'
import { createRevisionOf, revisionColumn } from '../database/revision-of.ts'
import { limitOf } from '../database/row-limit.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byShape, prepareStatement } from '../database/statement.ts'
import {
  columnsOfRow,
  documentColumn,
  type FilterValues,
  type FoundRow,
  referenceColumns,
  rowColumns,
  type VersionFilter,
  versionConditions,
} from '../database/version-columns.ts'
import { type Candidate, createCandidates } from './candidates.ts'
import type { Step, StepQuery } from './walk-step.ts'

type Values = Required<FilterValues> & {
  readonly registry: number
  readonly entries: unknown
  readonly limit: number
  readonly afterPrecedence: string
}

/**
 * Makes the function that scans the next entries: first them, by ranges of an index, then their versions. Both
 * give the registry's revision.
 */
export function createSqliteStep(database: Kysely<RegistryTables>): (query: StepQuery) => Promise<Step> {
  const candidates = createCandidates(database)
  const versions = createVersions(database)
  const revisionOf = createRevisionOf(database)

  return async function readStep({ registry, type, visible, from, size, limit, filter, values, ...after }) {
    const { includeDeleted } = filter
    const { found, last, more, revision } = await candidates({ registry, type, visible, from, size, includeDeleted })
    // Only on the page's first name are there versions that came before.
    const afterPrecedence = found[0]?.name === after.afterName ? after.afterPrecedence : ''
    const rows = found.length === 0 ? [] : await versions(found, filter, { registry, limit, afterPrecedence, values })
    const revisionAfter = rows.length === 0 ? await revisionOf(registry) : rows[0]?.revision
    const torn = revision !== undefined && revisionAfter !== revision
    return { rows, scanned: found.length, last, more, revision: revisionAfter, torn }
  }
}

interface VersionsOptions {
  readonly registry: number
  readonly limit: number
  /** Of the first entry's versions only those behind this one. */
  readonly afterPrecedence: string
  readonly values: FilterValues
}

function createVersions(database: Kysely<RegistryTables>) {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter) =>
    prepareStatement<RegistryTables, Values, FoundRow>(
      database,
      // In the order of the list, as SQLite reads it; with an order of its own it would read all of it before it stops at the limit.
      (value) => sql<FoundRow>`
            select ${columnsOfRow}, ${documentColumn}, ${revisionColumn(value)}
            from (
              select ${rowColumns}, ${referenceColumns}, c.key, v.precedence
              from ${lists.table(value('entries'))} c cross join entry e cross join entry_version v
              where e.id = c.value and v.entry_id = e.id
                and (c.key > 0 or v.precedence > ${value('afterPrecedence')})
                ${versionConditions(filter, value)}
              ${limitOf(value('limit'))}) p
              cross join document d
            where d.id = p.document_id`,
    ),
  )

  return function readVersions(found: readonly Candidate[], filter: VersionFilter, options: VersionsOptions) {
    const { values, ...rest } = options
    const entries = lists.value(found.map(({ entry_id }) => entry_id))
    // The shape says which placeholders there are, and the values come by the same shape.
    return statement(filter)({ ...values, ...rest, entries } as Values)
  }
}
