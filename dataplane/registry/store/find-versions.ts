import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import { foldTerm } from '../catalog/search-text.ts'
import type { RegistryTables } from './schema.ts'
import { prepareStatement } from './statement.ts'
import { type Next, nameOf } from './term-index.ts'
import { postgresIndex } from './term-index-postgres.ts'
import { sqliteIndex } from './term-index-sqlite.ts'

/** As many changed versions are looked at one by one; where there are more, walking by name soon meets enough of them. */
const FEW = 1_500

/** Finds versions by an index, over all registries. Undefined: there are many, or the index can't tell which. */
export interface FindVersions {
  /** Versions that have the term. */
  byTerm(term: string): Promise<readonly number[] | undefined>
  /** Versions that changed later. */
  byChange(since: string): Promise<readonly number[] | undefined>
  /**
   * The first name from `from` on that has a version with this term, or one that changed later. Undefined: there is none;
   * null: the index can't tell.
   */
  nextName(term: string | undefined, since: string | undefined, from: string): Promise<string | undefined | null>
}

export function createFindVersions(database: Kysely<RegistryTables>): FindVersions {
  const index = isPostgres(database) ? postgresIndex(database) : sqliteIndex(database)
  const changed = prepareStatement<RegistryTables, { since: string }, { id: number }>(
    database,
    (value) => sql<{ id: number }>`
      select id from entry_version where updated_at > ${value('since')} limit ${sql.lit(FEW)}`,
  )
  const nextChanged = prepareStatement<RegistryTables, { since: string; from: string }, Next>(
    database,
    (value) => sql<Next>`
      select min(e.name) as name from entry_version v join entry e on e.id = v.entry_id
      where v.updated_at > ${value('since')} and e.name >= ${value('from')}`,
  )

  return {
    byTerm: async (term) => (await index(foldTerm(term)))?.matching(),
    async byChange(since) {
      const rows = await changed({ since })
      return rows.length < FEW ? rows.map(({ id }) => id) : undefined
    },
    async nextName(term, since, from) {
      if (term === undefined) return since === undefined ? null : nameOf(await nextChanged({ since, from }))
      const search = await index(foldTerm(term))
      return search === undefined ? null : search.next(from)
    },
  }
}
