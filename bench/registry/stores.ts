import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { openPostgres } from '../../test/support/network/open-clients.ts'
import { startPostgres } from '../../test/support/network/postgres.ts'

export interface MeasuredStore {
  readonly settings: object
  /** A number that grows with each write. */
  writes(): Promise<number>
  close(): Promise<void>
}

export interface Stores {
  readonly name: string
  make(stateDirectory: string): Promise<MeasuredStore>
  close(): Promise<void>
}

export function sqliteStores(): Stores {
  return {
    name: 'SQLite',
    async make(stateDirectory) {
      let database: DatabaseSync | undefined
      return {
        settings: {},
        async writes() {
          // Use one connection: the number changes only with the writes of others.
          database ??= new DatabaseSync(join(stateDirectory, 'catalog.sqlite'), { readOnly: true })
          return Number(database.prepare('pragma data_version').get()?.['data_version'])
        },
        close: async () => database?.close(),
      }
    },
    close: async () => {},
  }
}

/** A server of its own with fsync on, as it comes. */
export async function postgresStores(): Promise<Stores> {
  const server = await startPostgres()
  let count = 0
  return {
    name: 'PostgreSQL',
    async make() {
      const url = await server.database(`bench${++count}`)
      return {
        settings: { database: { url, sslMode: 'disable' } },
        async writes() {
          const client = openPostgres({ connectionString: url })
          await client.connect()
          const { rows } = await client.query(
            'select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int as writes from pg_stat_user_tables',
          )
          await client.end()
          return rows[0].writes
        },
        close: async () => {},
      }
    },
    close: () => server.close(),
  }
}
