import type { Kysely } from 'kysely'
import { retryConflicts } from '../../../storage/sql.ts'
import type { IncomingVersion } from '../../catalog/entry.ts'
import { allocateIds } from '../database/allocate-ids.ts'
import { inChunks } from '../database/chunks.ts'
import { canonicalClaims, internClaims } from '../database/claims-sets.ts'
import type { RegistryTables } from '../database/schema.ts'
import { incomingColumns } from '../database/version-row.ts'
import type { NumberSet } from './number-set.ts'

type Database = Kysely<RegistryTables>
type Columns = ReturnType<typeof incomingColumns>

interface Batch {
  readonly versions: readonly IncomingVersion[]
  readonly seen: NumberSet
  /** Called in each transaction that writes, before it does. */
  readonly acquire: (transaction: Database) => Promise<void>
}

/** Stages versions that differ from those in the store, and adds to `seen` those that the store has. */
export function stageVersions(database: Database, source: number, { versions, seen, acquire }: Batch): Promise<void> {
  // Sources that are synced at the same time get in each other's way at the counters that number what they bring.
  return inChunks(versions, (chunk) =>
    retryConflicts(() =>
      database.transaction().execute(async (transaction) => {
        const rows = new Map<string, { readonly incoming: IncomingVersion; readonly columns: Columns }>()
        for (const incoming of chunk) {
          const columns = incomingColumns(incoming)
          rows.set(keyOf(columns), { incoming, columns })
        }
        const names = [...new Set(chunk.map(({ name }) => name))]
        const known = await loadKnown(transaction, source, names)
        const outdated = (await loadStaged(transaction, source, names)).filter((row) => rows.has(keyOf(row)))
        const fresh = [...rows].flatMap(([key, row]) => {
          const before = known.get(key)
          if (before !== undefined) seen.add(before.id)
          const same = before?.gone_at === null && before.content_hash === row.columns.content_hash
          return same ? [] : row
        })
        if (fresh.length + outdated.length === 0) return
        await acquire(transaction)
        await unstage(transaction, source, outdated)
        if (fresh.length === 0) return

        const { document: documents } = await allocateIds(transaction, { document: fresh.length })
        const sets = await internClaims(
          transaction,
          fresh.flatMap(({ incoming: { claims } }) => (claims === undefined ? [] : [claims])),
        )
        await transaction
          .insertInto('document')
          .values(
            fresh.map(({ incoming: { document } }, index) => ({
              id: documents[index] as number,
              source_id: source,
              text: document,
            })),
          )
          .execute()
        await transaction
          .insertInto('staged_version')
          .values(
            fresh.map(({ incoming: { claims }, columns }, index) => ({
              source_id: source,
              ...columns,
              claims_set: claims === undefined ? null : (sets.get(canonicalClaims(claims)) as number),
              document_id: documents[index] as number,
            })),
          )
          .execute()
      }),
    ),
  )
}

const keyOf = ({ type, name, precedence }: { type: string; name: string; precedence: string }) =>
  `${type} ${name} ${precedence}`

async function loadKnown(database: Database, source: number, names: readonly string[]) {
  const rows = await database
    .selectFrom('entry as e')
    .innerJoin('entry_version as v', 'v.entry_id', 'e.id')
    .select(['e.type', 'e.name', 'v.id', 'v.precedence', 'v.content_hash', 'v.gone_at'])
    .where('e.source_id', '=', source)
    .where('e.type', 'in', ['server', 'skill'])
    .where('e.name', 'in', names)
    .execute()
  return new Map(rows.map((row) => [keyOf(row), row]))
}

function loadStaged(database: Database, source: number, names: readonly string[]) {
  return database
    .selectFrom('staged_version')
    .select(['type', 'name', 'precedence', 'document_id'])
    .where('source_id', '=', source)
    .where('type', 'in', ['server', 'skill'])
    .where('name', 'in', names)
    .execute()
}

/** Removes what an earlier batch has staged of the same versions. */
async function unstage(database: Database, source: number, rows: readonly { readonly document_id: number }[]) {
  for (const { document_id } of rows) {
    await database.deleteFrom('document').where('id', '=', document_id).execute()
    await database
      .deleteFrom('staged_version')
      .where('document_id', '=', document_id)
      .where('source_id', '=', source)
      .execute()
  }
}
