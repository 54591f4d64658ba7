import { type Compilable, type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'
import { keepPlan } from '../../storage/kept-plans.ts'
import { isPostgres } from '../../storage/sql.ts'

/** Stands in a compiled query for a value that comes with each run. */
class Parameter {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}

type Placeholder<V> = <K extends keyof V & string>(name: K) => RawBuilder<V[K]>

/**
 * Builds a query once and runs it often, with new values for its placeholders: building and compiling costs Kysely tens
 * of microseconds, more than SQLite needs for a page. PostgreSQL keeps its plan too, unless the best one depends on the
 * values (`replan`).
 */
export function prepareStatement<T, V extends object, R>(
  database: Kysely<T>,
  build: (placeholder: Placeholder<V>) => Compilable<R> | RawBuilder<R>,
  { replan = false } = {},
): (values: V) => Promise<R[]> {
  const built = build((name) => sql`${new Parameter(name)}`).compile(database) as CompiledQuery<R>
  const compiled = isPostgres(database) && !replan ? { ...built, sql: keepPlan(built.sql) } : built

  return async function runStatement(values) {
    const parameters = compiled.parameters.map((value) =>
      value instanceof Parameter ? values[value.name as keyof V] : value,
    )
    const { rows } = await database.executeQuery<R>({ ...compiled, parameters })
    return rows
  }
}
