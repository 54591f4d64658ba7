import { sql } from 'kysely'
import type { RegistryTables } from '../database/schema.ts'
import { prepareForTransactions } from '../database/statement.ts'

interface Lock {
  readonly names: readonly string[]
  readonly claims: readonly string[]
}

interface LockedSource {
  readonly id: number
  readonly name: string
  readonly config: string
  /** Canonical. */
  readonly source_claims: string
  /** Numbers of the sets of claims that are known, by their canonical texts. */
  readonly sets: Readonly<Record<string, number>> | null
}

/** Sources, held until the transaction ends, with the sets of claims. */
export const lockSources = prepareForTransactions<RegistryTables, Lock, LockedSource>(
  (value) => sql<LockedSource>`
    select id, name, config, (select s.claims from claims_set s where s.id = source.claims_set) as source_claims,
      (select json_object_agg(c.claims, c.id) from claims_set c where c.claims = any(${value('claims')}::text[])) as sets
    from source where name = any(${value('names')}::text[]) order by id for update`,
)
