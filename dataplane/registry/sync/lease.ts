import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { Database } from '../store/database/schema.ts'

/** If a holder does not renew for this time, another replica may take over. */
const LEASE_MS = 15_000
const HEARTBEAT_MS = 5_000

const RETRY_MS = 1_000

interface Lease {
  readonly name: string
  readonly holder: string
  readonly signal: AbortSignal
}

/**
 * Runs work under a lease, which it renews meanwhile. If another replica has the lease, it waits for it, and runs the
 * work then. With SQLite there are no other replicas. Throws the reason of the signal.
 */
export async function underLease<T>(
  database: Database,
  { name, holder, signal }: Lease,
  work: () => Promise<T>,
): Promise<T> {
  if (!isPostgres(database)) return work()
  while (!(await take(database, name, holder))) {
    await delay(RETRY_MS, undefined, { signal }).catch(() => {
      // The reason of the signal is thrown below.
    })
    signal.throwIfAborted()
  }
  const renew = () => {
    take(database, name, holder).catch(() => {
      // The next renewal tries again. After three failures another replica may take over.
    })
  }
  const heartbeat = setInterval(renew, HEARTBEAT_MS)
  try {
    return await work()
  } finally {
    clearInterval(heartbeat)
    await database
      .deleteFrom('lease')
      .where('name', '=', name)
      .where('holder', '=', holder)
      .execute()
      .catch(() => {
        // The lease expires by itself.
      })
  }
}

/** Takes or renews a lease; false if another holder has it. The database's clock counts for all replicas. */
async function take(database: Database, name: string, holder: string): Promise<boolean> {
  const now = sql`extract(epoch from clock_timestamp()) * 1000`
  const { rows } = await sql`
    insert into lease as l (name, holder, expires_at) values (${name}, ${holder}, ${now} + ${sql.lit(LEASE_MS)})
    on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
    where l.holder = excluded.holder or l.expires_at < ${now} returning 1`.execute(database)
  return rows.length > 0
}
