import { type Compilable, type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'
import { asPreparedStatement } from '../../../storage/prepared-statements.ts'
import { isPostgres } from '../../../storage/sql.ts'

/** The rows of one statement: enough to make its fixed cost small, within the limits on parameters. */
const CHUNK = 200

/** A list of numbers as one parameter, so that the statement's text does not depend on its length. */
interface NumberLists {
  value(numbers: readonly number[]): unknown
  select(list: RawBuilder<unknown>): RawBuilder<unknown>
  /** Returns a table `(key, value)` of the numbers with their places from 0, in that order. */
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

/** A placeholder in a compiled query, whose value comes with each run. */
class Parameter {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

type Placeholder<V> = <K extends keyof V & string>(name: K) => RawBuilder<V[K]>

type Build<V, R> = (placeholder: Placeholder<V>) => Compilable<R> | RawBuilder<R>

/**
 * Builds a query once and runs it with new values: Kysely's compilation takes tens of microseconds, more than SQLite
 * needs for a page.
 */
export function prepareStatement<T, V extends object, R>(
  database: Kysely<T>,
  build: Build<V, R>,
): (values: V) => Promise<R[]> {
  const compiled = compile(database, build)
  return (values) => run(database, compiled, values)
}

/** Prepares a statement for transactions. All of them must be on the database of the first one. */
export function prepareForTransactions<T, V extends object, R>(
  build: Build<V, R>,
): (database: Kysely<T>, values: V) => Promise<R[]> {
  let compiled: CompiledQuery<R> | undefined
  return (database, values) => run(database, (compiled ??= compile(database, build)), values)
}

/** Creates the function that returns the statement of a shape. The statement is prepared on first use. */
export function byShape<A extends readonly unknown[], S>(prepare: (...shape: A) => S): (...shape: A) => S {
  const prepared = new Map<string, S>()
  return function findStatement(...shape) {
    const key = JSON.stringify(shape)
    let statement = prepared.get(key)
    if (statement === undefined) prepared.set(key, (statement = prepare(...shape)))
    return statement
  }
}

function compile<T, V, R>(database: Kysely<T>, build: Build<V, R>): CompiledQuery<R> {
  const compiled = build((name) => sql`${new Parameter(name)}`).compile(database) as CompiledQuery<R>
  return isPostgres(database) ? { ...compiled, sql: asPreparedStatement(compiled.sql) } : compiled
}

async function run<T, V extends object, R>(database: Kysely<T>, query: CompiledQuery<R>, values: V): Promise<R[]> {
  const parameters = query.parameters.map((value) =>
    value instanceof Parameter ? values[value.name as keyof V] : value,
  )
  const { rows } = await database.executeQuery<R>({ ...query, parameters })
  return rows
}

/** Passes the items on in chunks, one after the other. */
export async function inChunks<T>(items: readonly T[], each: (chunk: T[]) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += CHUNK) await each(items.slice(at, at + CHUNK))
}

/**
 * Returns a limit that comes with each run. SQLite would compile the statement anew for a bare placeholder, five times
 * the run itself for 32 parts.
 */
export function limitTo(rows: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`limit ${rows} + 0`
}

export function numberLists(database: Pick<Kysely<unknown>, 'getExecutor'>): NumberLists {
  return isPostgres(database) ? postgresLists : sqliteLists
}
