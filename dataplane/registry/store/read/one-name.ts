import { sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import type { Visible } from '../../authz/access.ts'
import type { EntryType } from '../../catalog/entry.ts'
import { precedence } from '../../catalog/precedence.ts'
import type { Database } from '../database/schema.ts'
import { byShape, limitTo, numberLists, prepareStatement } from '../database/statement.ts'
import {
  type FilterValues,
  type FoundRow,
  revisionColumn,
  type VersionFilter,
  versionColumns,
  versionConditions,
} from '../database/version-columns.ts'
import {
  estimatePageBytes,
  type MakePage,
  PAGE_BYTES,
  type ReadAttempt,
  type ReserveMemory,
  readConsistently,
  type VersionPage,
} from './version-page.ts'

export interface LookUpQuery {
  readonly registry: number
  readonly type: EntryType
  readonly visible: Visible
  readonly name: string
  readonly includeDeleted: boolean
}

interface OneNameQuery extends LookUpQuery {
  readonly version: VersionFilter['version']
  /** Only older versions are read, which sort before this precedence. */
  readonly before?: string | undefined
  readonly limit: number
  readonly values: FilterValues
  readonly hold?: ReserveMemory | undefined
}

/** The most versions that one statement finds, since their texts are in memory if they are not large. */
const STEP = 100

type VersionsValues = Required<FilterValues> &
  Pick<OneNameQuery, 'registry' | 'type' | 'name' | 'limit'> & {
    readonly before: string
    readonly sets: unknown
  }

function createOneStep(database: Database): (query: OneNameQuery) => Promise<FoundRow[]> {
  const lists = numberLists(database)

  const statement = byShape((filter: VersionFilter, all: boolean, goesOn: boolean) =>
    prepareStatement<VersionsValues, FoundRow>(
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
    } as VersionsValues)
  }
}

/** Creates the function that reads a page of versions of one name, newest first. */
export function createOneName(database: Database, makePage: MakePage): (query: OneNameQuery) => Promise<VersionPage> {
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

interface LookUpValues extends Pick<LookUpQuery, 'registry' | 'type'> {
  readonly names: unknown
  readonly sets: unknown
}

type LookUpRow = FoundRow & { readonly key: number }

const MOST_NAMES = 32
/** The most statements at a time for callers who see the same. With two, a slow one does not delay all others. */
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
  /** Returns the key of a query. Queries with the same key can run together. */
  buildKey(query: Q): string
  readonly most: number
  /** The most batches of one key at a time. Queries that arrive meanwhile go with the next batch. */
  readonly atOnce: number
  /** Returns the results, in the order of the queries. */
  run(queries: readonly Q[]): Promise<readonly R[]>
}

/**
 * Creates the function that finds the latest version of a name, in the first source that the caller sees. Concurrent
 * look-ups share a statement, since on PostgreSQL its fixed cost is most of the time.
 */
export function createLookUp(database: Database): (query: LookUpQuery) => Promise<FoundRow | undefined> {
  const lists = numberLists(database)
  const postgres = isPostgres(database)

  const statement = byShape((includeDeleted: boolean, all: boolean) =>
    prepareStatement<LookUpValues, LookUpRow>(database, (value) => {
      // Without the subquery PostgreSQL plans again for each length of the list, which takes 1 ms.
      const names = postgres
        ? sql`unnest((select ${value('names')}::text[])) with ordinality as c(value, key)`
        : sql`json_each(${value('names')}) c`
      return sql<LookUpRow>`
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
    most: MOST_NAMES,
    atOnce: AT_ONCE,
    buildKey: ({ registry, type, visible, includeDeleted }) => `${registry} ${type} ${includeDeleted} ${visible}`,
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

/** Creates the function that runs queries in batches, of those from one turn or those that arrive while others run. */
export function batchCalls<Q, R>({ buildKey, most, atOnce, run }: BatchOptions<Q, R>): (query: Q) => Promise<R> {
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
    const key = buildKey(query)
    let queue = queues.get(key)
    if (queue === undefined) queues.set(key, (queue = { waiting: [], running: 0 }))
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    if (queue.waiting.push({ query, resolve, reject }) === 1) setImmediate(advance, key, queue)
    return promise
  }
}
