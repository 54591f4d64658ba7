import { sql } from 'kysely'
import type { Logger } from 'pino'
import { isPostgres } from '../../../storage/sql.ts'
import { listenPostgres } from '../../../storage/sql-postgres.ts'
import type { StoreLocation } from './open.ts'
import type { Database } from './schema.ts'

const CHANNEL = 'portico_registry'
/** Notifications are lost when their connection is, so this also polls for changes. */
const POLL_EVERY_MS = 5_000

/** The scope of a change: only entries, or also the settings of sources and registries. */
export type ChangeScope = 'entries' | 'settings'

/** Notifies the other replicas, once the transaction is committed. `sender` is this replica. */
export async function notifyReplicas(database: Database, sender: string, scope: ChangeScope): Promise<void> {
  if (isPostgres(database)) await sql`select pg_notify(${CHANNEL}, ${`${sender} ${scope}`})`.execute(database)
}

async function closeNothing(): Promise<void> {
  // Only this process changes a SQLite file.
}

/** Calls `refresh` after changes by other replicas; `replica` is this one. */
export function subscribeToChanges(
  location: StoreLocation,
  replica: string,
  log: Logger,
  refresh: (changed?: 'entries') => Promise<void>,
) {
  if (typeof location === 'string') return { away: () => undefined, close: closeNothing }
  let reason: string | undefined
  let polling = false
  const onLost = (error: Error) => {
    if (reason === undefined) log.warn({ err: error }, 'PostgreSQL can’t be reached')
    reason = 'PostgreSQL can’t be reached'
  }
  const poll = (changed?: 'entries') =>
    refresh(changed).then(() => {
      if (reason !== undefined) log.info('PostgreSQL can be reached again')
      reason = undefined
    }, onLost)
  const pollRegularly = (): void => {
    // A network that drops packets reports no error until the query times out, long after the cache is outdated.
    if (polling) {
      onLost(new Error(`PostgreSQL has not answered for ${POLL_EVERY_MS / 1000} s`))
      return
    }
    polling = true
    poll()
      .finally(() => {
        polling = false
      })
      .catch(onLost)
  }
  const onNotification = (text = '') => {
    const [sender, scope] = text.split(' ')
    if (sender !== replica) poll(scope === 'entries' ? scope : undefined).catch(onLost)
  }
  const subscription = listenPostgres(location, CHANNEL, { onNotification, onLost })
  const timer = setInterval(pollRegularly, POLL_EVERY_MS)
  return {
    /** Returns the reason why the database can't be reached; undefined while it can. */
    away: () => reason,
    async close() {
      clearInterval(timer)
      await subscription.close()
    },
  }
}
