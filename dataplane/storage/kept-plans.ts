import { hash } from 'node:crypto'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'

const MARK = '/* kept */ '

/**
 * Marks a statement that PostgreSQL is to keep parsed, and to plan once for all values where it takes that for as good.
 * Only for texts of which there are few: each connection keeps them until it ends.
 */
export function keepPlan(statement: string): string {
  return MARK + statement
}

/**
 * Makes a connection plan each statement for all values, whatever they are: to plan a join of six tables takes PostgreSQL
 * as long as to read a page by that plan, and where a page's length comes as a value it plans anew each time. Only for
 * statements whose best plan does not depend on their values.
 */
export async function planForAllValues(client: pg.ClientBase): Promise<void> {
  await client.query('set plan_cache_mode = force_generic_plan')
}

/**
 * The pool as Kysely takes it, whose connections come by `connect`. Statements that `keepPlan` has marked are prepared
 * under a name. A connection that has not answered
 * in time is not used again: its server may be gone without a word, or still be at it.
 */
export function poolKeepingPlans(pool: pg.Pool, connect: () => Promise<pg.PoolClient>): PostgresPool {
  const names = new Map<string, string>()
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>()

  function nameOf(text: string): string {
    let name = names.get(text)
    if (name === undefined) names.set(text, (name = hash('sha256', text, 'base64url')))
    return name
  }

  function adapt(client: pg.PoolClient): PostgresPoolClient {
    const query = (text: string, values: unknown[]) =>
      client
        .query(text.startsWith(MARK) ? { name: nameOf(text), text, values } : { text, values })
        .catch((error: Error) => {
          // The query's own error is thrown, whatever closing the connection comes to.
          if (error.message === 'Query read timeout') (client as pg.PoolClient & pg.Client).end().catch(() => {})
          throw error
        })
    // The other form of `query`, for cursors, is not asked for where the dialect is given none.
    return { query: query as unknown as PostgresPoolClient['query'], release: (destroy) => client.release(destroy) }
  }

  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await connect()
      let adapted = clients.get(client)
      // Kysely, too, knows connections by their identity.
      if (adapted === undefined) clients.set(client, (adapted = adapt(client)))
      return adapted
    },
  }
}
