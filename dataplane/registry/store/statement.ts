import { type Compilable, type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'

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
 * of microseconds, more than SQLite needs for a page.
 */
export function prepareStatement<T, V extends object, R>(
  database: Kysely<T>,
  build: (placeholder: Placeholder<V>) => Compilable<R> | RawBuilder<R>,
): (values: V) => Promise<R[]> {
  const compiled = build((name) => sql`${new Parameter(name)}`).compile(database) as CompiledQuery<R>

  return async function runStatement(values) {
    const parameters = compiled.parameters.map((value) =>
      value instanceof Parameter ? values[value.name as keyof V] : value,
    )
    const { rows } = await database.executeQuery<R>({ ...compiled, parameters })
    return rows
  }
}
