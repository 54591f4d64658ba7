import { PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import { connectInTurn, isTlsError, type TlsSettings, type Transport, tlsInUrl, transportsOf } from './postgres-tls.ts'
import { planForAllValues, poolWithPreparedStatements } from './prepared-statements.ts'

export interface PostgresConfig extends TlsSettings {
  readonly url?: string | undefined
  /** Absolute; read whenever a connection is opened. */
  readonly urlFile?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly user?: string | undefined
  /** Absolute; read whenever a connection is opened, so that a password rotates without a restart. */
  readonly passwordFile?: string | undefined
  /** Absolute; a pgpass file that has the password, read whenever a connection is opened. */
  readonly pgpassFile?: string | undefined
  readonly database?: string | undefined
}

/** A database that does not answer within this time is unreachable. */
const CONNECT_MS = 2_000
const QUERY_MS = 60_000
/** A connection that is idle for this time is closed. */
const IDLE_MS = 30_000

export interface PoolOptions {
  readonly postgres: PostgresConfig
  readonly connections: number
  readonly connectionWaitMs?: number
  /** Longest wait for the answer to a statement, in milliseconds; default a minute, 0 is without end. */
  readonly queryMs?: number
  /** True if the best plan of each statement is the same for all values. */
  readonly plansForAllValues?: boolean
  readonly log?: Logger
  /** Called when connecting failed, with the reason and the elapsed milliseconds. */
  readonly onUnconnected?: (error: unknown, ms: number) => void
}

interface PgpassKey {
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
}

/** Four fields that end with a colon, and all that follows. */
const LINE = new RegExp(`^${'((?:\\\\.|[^\\\\:])*):'.repeat(4)}(.*)$`)

export function postgresDialect({
  postgres: config,
  connections,
  connectionWaitMs,
  queryMs = QUERY_MS,
  plansForAllValues,
  log,
  onUnconnected,
}: PoolOptions): PostgresDialect {
  return new PostgresDialect({
    pool: async () => {
      const { transports, ...client } = clientConfig(config)
      const pool = new pg.Pool({
        ...client,
        ssl: transports[0],
        max: connections,
        ...(connectionWaitMs === undefined ? {} : { connectionTimeoutMillis: connectionWaitMs }),
        idleTimeoutMillis: IDLE_MS,
        query_timeout: queryMs,
        async onConnect(client) {
          // A stalled connection's locks would hold up all others.
          await client.query(`set idle_in_transaction_session_timeout = ${queryMs / 2}`)
          if (plansForAllValues) await planForAllValues(client)
        },
      })
      // An idle connection that is cut would end the process if there were no listener. The pool opens another one.
      pool.on('error', (error) => log?.warn({ err: error }, 'a connection to PostgreSQL was lost'))
      // The same applies to a connection that is cut in use, on which the pool does not listen.
      pool.on('connect', (client) => client.on('error', ignoreLoss))
      return poolWithPreparedStatements(pool, async () => {
        const since = performance.now()
        try {
          return await connectInTurn(transports, (transport) => connectBy(pool, transport, transports[0]))
        } catch (error) {
          onUnconnected?.(error, performance.now() - since)
          throw error
        }
      })
    },
  })
}

/** Makes a pool open a connection with this transport; `usual` is that of all others. */
function connectBy(pool: pg.Pool, transport: Transport, usual: Transport): Promise<pg.PoolClient> {
  const options = pool.options as { ssl?: Transport }
  options.ssl = transport
  // The pool begins before it returns.
  const connecting = pool.connect()
  options.ssl = usual
  return connecting
}

interface ClientConfig extends pg.ClientConfig {
  /** Ways to connect, in the order in which they are tried. */
  readonly transports: readonly [Transport, ...Transport[]]
}

export function clientConfig(config: PostgresConfig): ClientConfig {
  const given = config.urlFile === undefined ? config.url : secretFile(config.urlFile)()
  const { url, tls } = given === undefined ? { url: given, tls: config } : tlsInUrl(given, config)
  return {
    ...(url === undefined
      ? { host: config.host, port: config.port ?? 5432, user: config.user, database: config.database }
      : { connectionString: url }),
    ...(config.passwordFile !== undefined && { password: secretFile(config.passwordFile) }),
    ...(config.pgpassFile !== undefined && { password: fromPgpass(config.pgpassFile, config) }),
    transports: transportsOf(tls),
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    application_name: 'portico',
    types: { getTypeParser },
  } as ClientConfig
}

function fromPgpass(file: string, { host = '', port = 5432, database = '', user = '' }: PostgresConfig): () => string {
  const readFile = secretFile(file)
  return function passwordFromPgpass() {
    const password = pgpassPassword(readFile(), { host, port, database, user })
    if (password !== undefined) return password
    throw new Error(`the file ${file} has no password for ${user} at ${host}:${port}/${database}`)
  }
}

const INT8 = 20
/** Parses counts, which are 64-bit integers, as numbers; none of ours outgrows a number. */
function getTypeParser(type: number, format?: 'text' | 'binary') {
  return type === INT8 ? Number : pg.types.getTypeParser(type, format as 'text')
}

/** The codes of the network and Node for a server that can't be reached. */
const AWAY =
  /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE)|Connection terminated|timeout exceeded|Query read timeout|Client (has encountered a connection error|was closed)|connection has been discarded/

/** Tells whether an error came from PostgreSQL or from the connection to it. */
export function isPostgresError(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return true
  if (!(error instanceof Error)) return false
  if (isTlsError(error)) return true
  return AWAY.test((error as NodeJS.ErrnoException).code ?? '') || AWAY.test(error.message)
}

/** Tells whether the server can't be reached or is shutting down, so that every statement would fail. */
export function isPostgresAway(error: unknown): boolean {
  return error instanceof pg.DatabaseError ? /^(08|57P)/.test(error.code ?? '') : isPostgresError(error)
}

/** Tells whether two transactions conflicted: if run again, each of them passes. */
export function isPostgresConflict(error: unknown): boolean {
  // serialization_failure, deadlock_detected, unique_violation and foreign_key_violation
  return error instanceof pg.DatabaseError && ['40001', '40P01', '23505', '23503'].includes(error.code ?? '')
}

/**
 * Listens on a channel (`LISTEN`) until closed. `onNotification` is also called, without a text, after each connect,
 * since notifications are lost in between.
 */
export function listenPostgres(
  config: PostgresConfig,
  channel: string,
  { onNotification, onLost }: { onNotification(text?: string): void; onLost(error: Error): void },
): { close(): Promise<void> } {
  let client: pg.Client | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  function again(error: Error): void {
    if (closed) return
    onLost(error)
    timer = setTimeout(begin, RECONNECT_MS)
  }

  async function connect(): Promise<void> {
    const { transports, ...settings } = clientConfig(config)
    const next = await connectInTurn(transports, (ssl) => connected(new pg.Client({ ...settings, ssl })))
    if (closed) return next.end()
    client = next
    let over = false
    const end = (error: Error) => {
      if (over) return
      over = true
      next.end().catch(() => {
        // The connection is broken already.
      })
      again(error)
    }
    next.on('error', end)
    next.on('end', () => end(new Error('Connection terminated')))
    next.on('notification', ({ payload }) => onNotification(payload))
    try {
      await next.query(`listen "${channel}"`)
      onNotification()
    } catch (error) {
      end(error as Error)
    }
  }

  const begin = (): void => {
    connect().catch(again)
  }

  begin()
  return {
    async close() {
      closed = true
      clearTimeout(timer)
      await client?.end().catch(() => {
        // A broken connection is closed already.
      })
    },
  }
}

function ignoreLoss(): void {
  // The user of the connection sees its query fail; without a listener the event would end the process.
}

/** Connects a client and returns it; ends a client that can't connect. */
async function connected(client: pg.Client): Promise<pg.Client> {
  client.on('error', ignoreLoss)
  try {
    await client.connect()
    return client
  } catch (error) {
    client.end().catch(() => {
      // The reason is thrown below; closing a connection that was never open may fail.
    })
    throw error
  }
}

const RECONNECT_MS = 500

/**
 * Returns the password of a pgpass file: the first matching line `host:port:database:user:password`, with `*` for
 * anything and backslash escapes (PostgreSQL, section 34.16); undefined if there is none.
 */
export function pgpassPassword(text: string, { host, port, database, user }: PgpassKey): string | undefined {
  const wanted = [host, String(port), database, user]
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    const [, ...fields] = LINE.exec(line) ?? []
    const password = fields.pop()
    if (password !== undefined && fields.every((field, index) => field === '*' || plain(field) === wanted[index]))
      return plain(password)
  }
  return undefined
}

const plain = (field: string) => field.replace(/\\(.)/g, '$1')
