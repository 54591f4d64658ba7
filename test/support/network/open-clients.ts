import { Redis } from 'ioredis'
import pg from 'pg'

/** Ignores the error of a server that a test ends; a command that waits fails by itself. */
const ignoreError = (): void => undefined

/** Opens a Redis client. Without a listener for `error`, ioredis writes each lost connection to the console. */
export function openRedis(port: number, host = '127.0.0.1'): Redis {
  const client = new Redis(port, host)
  client.on('error', ignoreError)
  return client
}

/** Creates a PostgreSQL client, not yet connected. Without a listener for `error`, a lost connection ends the process. */
export function openPostgres(config: string | pg.ClientConfig): pg.Client {
  const client = new pg.Client(config)
  client.on('error', ignoreError)
  return client
}
