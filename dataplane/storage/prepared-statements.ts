import { hash } from 'node:crypto'
import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'

const MARKER = '/* kept */ '

/** Marks a statement as a named prepared one, which each connection keeps: use it for few texts. */
export function asPreparedStatement(statement: string): string {
  return MARKER + statement
}

/**
 * Makes a connection use generic plans. Planning a join of six tables takes PostgreSQL as long as reading a page. Only
 * for statements whose best plan does not depend on their values.
 */
export async function planForAllValues(client: pg.ClientBase): Promise<void> {
  await client.query('set plan_cache_mode = force_generic_plan')
}

/**
 * Makes a pool for Kysely whose connections come from `connect`. A connection whose query has timed out is not used
 * again: its server may be unreachable, or still run the query.
 */
export function poolWithPreparedStatements(pool: pg.Pool, connect: () => Promise<pg.PoolClient>): PostgresPool {
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
        .query(text.startsWith(MARKER) ? { name: nameOf(text), text, values } : { text, values })
        .catch((error: Error) => {
          if (error.message === 'Query read timeout')
            (client as pg.PoolClient & pg.Client).end().catch(() => {
              // The query's own error is thrown below; an error of closing the connection is ignored.
            })
          throw error
        })
    // Kysely uses the other form of `query` only if the dialect has a cursor.
    return { query: query as unknown as PostgresPoolClient['query'], release: (destroy) => client.release(destroy) }
  }

  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await connect()
      let adapted = clients.get(client)
      // Kysely identifies connections by object identity, so each connection keeps its object.
      if (adapted === undefined) clients.set(client, (adapted = adapt(client)))
      return adapted
    },
  }
}
