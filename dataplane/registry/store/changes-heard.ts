import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import { isPostgres } from '../../storage/sql.ts'
import { listenPostgres } from '../../storage/sql-postgres.ts'
import type { StorePlace } from './open.ts'
import type { RegistryTables } from './schema.ts'

const CHANNEL = 'portico_registry'
/** What is told gets lost with the connection that it is told on; so now and then it is looked without being told. */
const LOOK_EVERY_MS = 5_000

/** Tells the other replicas, once what was written is in force. */
export async function tellOthers(database: Kysely<RegistryTables>): Promise<void> {
  if (isPostgres(database)) await sql`select pg_notify(${CHANNEL}, '')`.execute(database)
}

/** Whether the database can be reached, and an end to listening. */
export interface Ear {
  /** Undefined while the database can be reached; else why it can't. */
  away(): string | undefined
  close(): Promise<void>
}

/** Calls `refresh` when another replica has written. A file has no other writer. */
export function hearOthers(place: StorePlace, log: Logger, refresh: () => Promise<void>): Ear {
  if (typeof place === 'string') return { away: () => undefined, close: async () => {} }
  let reason: string | undefined
  const lost = (error: Error) => {
    if (reason === undefined) log.warn({ err: error }, 'PostgreSQL can’t be reached')
    reason = 'PostgreSQL can’t be reached'
  }
  const look = () =>
    refresh().then(() => {
      if (reason !== undefined) log.info('PostgreSQL is here again')
      reason = undefined
    }, lost)
  const ear = listenPostgres(place, CHANNEL, { heard: () => void look(), lost })
  const timer = setInterval(look, LOOK_EVERY_MS)
  return {
    away: () => reason,
    async close() {
      clearInterval(timer)
      await ear.close()
    },
  }
}
