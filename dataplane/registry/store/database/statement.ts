import { type Compilable, type CompiledQuery, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'
import { asPreparedStatement } from '../../../storage/sql-postgres.ts'
import type { Database } from './schema.ts'

/** The rows of one statement. More would exceed the limits on parameters, fewer cost more statements. */
const CHUNK_ROWS = 200

/** Lists of numbers as single parameters, so that a statement's text does not depend on their length. */
interface NumberLists {
  value(numbers: readonly number[]): unknown
  select(list: RawBuilder<unknown>): RawBuilder<unknown>
  /** Returns a table `(key, value)` of the indexes and numbers, in order. */
  table(list: RawBuilder<unknown>): RawBuilder<unknown>
}

const sqliteLists: NumberLists = {
  value: (numbers) => `[${numbers.join()}]`,
  select: (list) => sql`select value from json_each(${list})`,
  table: (list) => sql`(select key, value from json_each(${list}))`,
}

const postgresLists: NumberLists = {
  value: (numbers) => numbers,
  select: (list) => sql`select unnest(${list}::int[])`,
  table: (list) =>
    sql`(select ordinality - 1 as key, value from unnest(${list}::int[]) with ordinality as u(value, ordinality))`,
}

/** A placeholder in a compiled query. Its value comes with each run. */
class Parameter {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

type Placeholder<V> = <K extends keyof V & string>(name: K) => RawBuilder<V[K]>

type Build<V, R> = (placeholder: Placeholder<V>) => Compilable<R> | RawBuilder<R>

/**
 * Builds a query once, to run it with other values each time: Kysely takes tens of microseconds to compile it, longer
 * than SQLite takes to run it for a page.
 */
export function prepareStatement<V extends object, R>(
  database: Database,
  build: Build<V, R>,
): (values: V) => Promise<R[]> {
  const compiled = compile(database, build)
  return (values) => run(database, compiled, values)
}

/** Prepares a statement for transactions, all on the database of the first one. */
export function prepareForTransactions<V extends object, R>(
  build: Build<V, R>,
): (database: Database, values: V) => Promise<R[]> {
  let compiled: CompiledQuery<R> | undefined
  return (database, values) => run(database, (compiled ??= compile(database, build)), values)
}

/** Creates the function that finds the statement of a shape. It prepares each statement on first use. */
export function byShape<A extends readonly unknown[], S>(prepare: (...shape: A) => S): (...shape: A) => S {
  const prepared = new Map<string, S>()
  return function findStatement(...shape) {
    const key = JSON.stringify(shape)
    let statement = prepared.get(key)
    if (statement === undefined) prepared.set(key, (statement = prepare(...shape)))
    return statement
  }
}

function compile<V, R>(database: Database, build: Build<V, R>): CompiledQuery<R> {
  const compiled = build((name) => sql`${new Parameter(name)}`).compile(database) as CompiledQuery<R>
  return isPostgres(database) ? { ...compiled, sql: asPreparedStatement(compiled.sql) } : compiled
}

async function run<V extends object, R>(database: Database, query: CompiledQuery<R>, values: V): Promise<R[]> {
  const parameters = query.parameters.map((value) =>
    value instanceof Parameter ? values[value.name as keyof V] : value,
  )
  const { rows } = await database.executeQuery<R>({ ...query, parameters })
  return rows
}

/** Calls `each` with chunks of the items, one after the other. */
export async function inChunks<T>(items: readonly T[], each: (chunk: T[]) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += CHUNK_ROWS) await each(items.slice(at, at + CHUNK_ROWS))
}

/**
 * Returns a limit whose value comes with each run. For a plain placeholder SQLite would compile the statement again each
 * time, which takes five times as long as the run for 32 parts.
 */
export function limitTo(rows: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`limit ${rows} + 0`
}

export function numberLists(database: Database): NumberLists {
  return isPostgres(database) ? postgresLists : sqliteLists
}
