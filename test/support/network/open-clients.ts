import { Redis } from 'ioredis'
import pg from 'pg'

/** A server that a test ends is no fault of its client: whoever waits for a command is told by that. */
const ended = (): void => undefined

/** A client of Redis. Without a listener for `error` ioredis writes each lost connection to the console. */
export function openRedis(port: number, host = '127.0.0.1'): Redis {
  const client = new Redis(port, host)
  client.on('error', ended)
  return client
}

/** A client of PostgreSQL, not connected yet. Without a listener for `error` a lost connection ends the process. */
export function openPostgres(config: string | pg.ClientConfig): pg.Client {
  const client = new pg.Client(config)
  client.on('error', ended)
  return client
}
