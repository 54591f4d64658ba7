import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { foldTerm } from '../../catalog/search-text.ts'
import { revisionColumn } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { prepareStatement } from '../database/statement.ts'
import { type FoundVersions, type NextMatch, type NextNameRow, readNextMatch } from './term-index.ts'
import { postgresIndex } from './term-index-postgres.ts'
import { sqliteIndex } from './term-index-sqlite.ts'

/** The most changed versions that are read one by one. If there are more, walking by name soon meets enough of them. */
const FEW = 1_500

/** Finds versions by an index, over all registries. Undefined if there are many, or if the index can't find them. */
interface FindVersions {
  byTerm(term: string, registry: number): Promise<FoundVersions | undefined>
  byChange(since: string, registry: number): Promise<FoundVersions | undefined>
  next(query: NextQuery): Promise<NextMatch | undefined>
}

interface NextQuery {
  readonly registry: number
  readonly term: string | undefined
  readonly since: string | undefined
  readonly from: string
}

export function createFindVersions(database: Kysely<RegistryTables>): FindVersions {
  const index = isPostgres(database) ? postgresIndex(database) : sqliteIndex(database)
  const changed = prepareStatement<RegistryTables, { since: string; registry: number }, Changed>(
    database,
    (value) => sql<Changed>`
      select id, ${revisionColumn(value)}
      from entry_version where updated_at > ${value('since')} limit ${sql.lit(FEW)}`,
  )
  const nextChanged = prepareStatement<RegistryTables, { since: string; from: string; registry: number }, NextNameRow>(
    database,
    (value) => sql<NextNameRow>`
      select min(e.name) as name, ${revisionColumn(value)}
      from entry_version v join entry e on e.id = v.entry_id
      where v.updated_at > ${value('since')} and e.name >= ${value('from')}`,
  )

  return {
    byTerm: async (term, registry) => (await index(foldTerm(term), registry))?.matching(),
    async byChange(since, registry) {
      const rows = await changed({ since, registry })
      return rows.length < FEW ? { ids: rows.map(({ id }) => id), revision: rows[0]?.revision } : undefined
    },
    async next({ registry, term, since, from }) {
      if (term !== undefined) return (await index(foldTerm(term), registry))?.next(from)
      return since === undefined ? undefined : readNextMatch(await nextChanged({ since, from, registry }))
    },
  }
}

interface Changed {
  readonly id: number
  readonly revision: string
}
