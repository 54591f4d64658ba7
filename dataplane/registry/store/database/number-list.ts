import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../../../storage/sql.ts'

/** A list of numbers as one parameter, so that the statement's text does not depend on how many there are. */
interface NumberLists {
  /** What a statement is given for the list. */
  value(numbers: readonly number[]): unknown
  /** A query of the numbers. */
  select(list: RawBuilder<unknown>): RawBuilder<unknown>
  /** A table `(key, value)` of the numbers with their places from 0, in that order. */
  table(list: RawBuilder<unknown>): RawBuilder<unknown>
}

const sqlite: NumberLists = {
  value: (numbers) => `[${numbers.join()}]`,
  select: (list) => sql`select value from json_each(${list})`,
  table: (list) => sql`(select key, value from json_each(${list}))`,
}

const postgres: NumberLists = {
  value: (numbers) => numbers,
  select: (list) => sql`select unnest(${list}::int[])`,
  table: (list) =>
    sql`(select ordinality - 1 as key, value from unnest(${list}::int[]) with ordinality as u(value, ordinality))`,
}

export function numberLists(database: Pick<Kysely<unknown>, 'getExecutor'>): NumberLists {
  return isPostgres(database) ? postgres : sqlite
}
