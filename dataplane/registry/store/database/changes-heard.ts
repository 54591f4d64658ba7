import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import { isPostgres } from '../../../storage/sql.ts'
import { listenPostgres } from '../../../storage/sql-postgres.ts'
import type { StorePlace } from './open.ts'
import type { RegistryTables } from './schema.ts'

const CHANNEL = 'portico_registry'
/** What is told gets lost with the connection that it is told on; so now and then it is looked without being told. */
const LOOK_EVERY_MS = 5_000

/** What has changed: entries alone, or how sources and registries are set too. */
export type News = 'entries' | 'settings'

/** Tells the other replicas, once what was written is in force. `teller` is this process among them. */
export async function tellOthers(database: Kysely<RegistryTables>, teller: string, news: News): Promise<void> {
  if (isPostgres(database)) await sql`select pg_notify(${CHANNEL}, ${`${teller} ${news}`})`.execute(database)
}

/** Whether the database can be reached, and an end to listening. */
interface Ear {
  /** Undefined while the database can be reached; else why it can't. */
  away(): string | undefined
  close(): Promise<void>
}

/**
 * Calls `refresh` when another replica has written; what this one (`self`) tells it knows. A file has no other writer.
 */
export function hearOthers(
  place: StorePlace,
  self: string,
  log: Logger,
  refresh: (changed?: 'entries') => Promise<void>,
): Ear {
  if (typeof place === 'string') return { away: () => undefined, close: async () => {} }
  let reason: string | undefined
  let looking = false
  const lost = (error: Error) => {
    if (reason === undefined) log.warn({ err: error }, 'PostgreSQL can’t be reached')
    reason = 'PostgreSQL can’t be reached'
  }
  const look = (changed?: 'entries') =>
    refresh(changed).then(() => {
      if (reason !== undefined) log.info('PostgreSQL is here again')
      reason = undefined
    }, lost)
  const lookUnasked = (): void => {
    // A network that drops what is sent says nothing: until the query times out what is known would pass for true.
    if (looking) {
      lost(new Error(`PostgreSQL has not answered for ${LOOK_EVERY_MS / 1000} s`))
      return
    }
    looking = true
    look()
      .finally(() => {
        looking = false
      })
      .catch(lost)
  }
  const heard = (text = '') => {
    const [teller, news] = text.split(' ')
    if (teller !== self) look(news === 'entries' ? news : undefined).catch(lost)
  }
  const ear = listenPostgres(place, CHANNEL, { heard, lost })
  const timer = setInterval(lookUnasked, LOOK_EVERY_MS)
  return {
    away: () => reason,
    async close() {
      clearInterval(timer)
      await ear.close()
    },
  }
}
