import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { Visible } from '../../authz/visibility.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { revisionColumn } from '../database/read-revision.ts'
import type { RegistryTables } from '../database/schema.ts'
import { byShape, numberLists, prepareStatement } from '../database/statement.ts'
import { type FoundRow, versionColumns } from '../database/version-columns.ts'

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

type Row = FoundRow & { readonly key: number }

/** The most names of one statement. */
const MOST = 32
/** The most statements that run at a time for one kind of caller: a slow one does not delay all. */
const AT_ONCE = 2

interface PendingCall<Q, R> {
  readonly query: Q
  resolve(result: R): void
  reject(error: unknown): void
}

interface CallQueue<Q, R> {
  waiting: PendingCall<Q, R>[]
  running: number
}

interface BatchOptions<Q, R> {
  /** Returns the key of a query. Queries of the same key can run together. */
  keyOf(query: Q): string
  readonly most: number
  /** The most batches of one key that run at a time. Queries that arrive meanwhile wait for the next batch. */
  readonly atOnce: number
  /** Returns the results, in the order of the queries. */
  run(queries: readonly Q[]): Promise<readonly R[]>
}

/**
 * Creates the function that reads the latest version of a name, from the first source that the caller sees. Concurrent
 * look-ups share one statement, whose fixed cost dominates on PostgreSQL.
 */
export function createLookUp(database: Kysely<RegistryTables>): (query: LookUpQuery) => Promise<FoundRow | undefined> {
  const lists = numberLists(database)
  const postgres = isPostgres(database)

  const statement = byShape((includeDeleted: boolean, all: boolean) =>
    prepareStatement<RegistryTables, Values, Row>(database, (value) => {
      // In a subquery the length of the list does not make PostgreSQL plan anew, which took 1 ms each time.
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

/** Creates the function that runs queries in batches: those of one turn, or that arrive while others run. */
export function batchCalls<Q, R>({ keyOf, most, atOnce, run }: BatchOptions<Q, R>): (query: Q) => Promise<R> {
  const queues = new Map<string, CallQueue<Q, R>>()

  async function runBatch(batch: readonly PendingCall<Q, R>[]): Promise<void> {
    try {
      const results = await run(batch.map(({ query }) => query))
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as R)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  function advance(key: string, queue: CallQueue<Q, R>): void {
    while (queue.waiting.length > 0 && queue.running < atOnce) {
      const batch = queue.waiting.splice(0, most)
      queue.running++
      const next = () => {
        queue.running--
        advance(key, queue)
      }
      runBatch(batch).then(next, next)
    }
    if (queue.waiting.length === 0 && queue.running === 0) queues.delete(key)
  }

  return function call(query) {
    const key = keyOf(query)
    let queue = queues.get(key)
    if (queue === undefined) queues.set(key, (queue = { waiting: [], running: 0 }))
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    if (queue.waiting.push({ query, resolve, reject }) === 1) setImmediate(advance, key, queue)
    return promise
  }
}
