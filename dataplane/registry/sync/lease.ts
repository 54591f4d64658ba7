import { setTimeout as delay } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { isPostgres } from '../../storage/sql.ts'
import type { RegistryTables } from '../store/database/schema.ts'

/** A holder that does not renew for so long counts as dead, and another may take over. */
const LEASE_MS = 15_000
const HEARTBEAT_MS = 5_000

const AGAIN_MS = 1_000

interface Lease {
  readonly name: string
  readonly holder: string
  /** Aborts the wait for another replica, and throws its reason. */
  readonly signal: AbortSignal
}

/**
 * Does work under a lease, which it renews meanwhile. If another replica holds it, this one waits and then does the
 * work itself. SQLite has no other replicas.
 */
export async function underLease<T>(
  database: Kysely<RegistryTables>,
  { name, holder, signal }: Lease,
  work: () => Promise<T>,
): Promise<T> {
  if (!isPostgres(database)) return work()
  while (!(await take(database, name, holder))) {
    await delay(AGAIN_MS, undefined, { signal }).catch(() => {
      // The wait was aborted; the signal's own reason is thrown below.
    })
    signal.throwIfAborted()
  }
  const renew = () => {
    take(database, name, holder).catch(() => {
      // The next renewal tries again; after three failed ones another replica may take over.
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

/** Takes the lease by the database's clock, which all replicas share. */
async function take(database: Kysely<RegistryTables>, name: string, holder: string): Promise<boolean> {
  const now = sql`extract(epoch from clock_timestamp()) * 1000`
  const { rows } = await sql`
    insert into lease as l (name, holder, expires_at) values (${name}, ${holder}, ${now} + ${sql.lit(LEASE_MS)})
    on conflict (name) do update set holder = excluded.holder, expires_at = excluded.expires_at
    where l.holder = excluded.holder or l.expires_at < ${now} returning 1`.execute(database)
  return rows.length > 0
}
