import { getCACertificates } from 'node:tls'
import { PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import { planForAllValues, poolKeepingPlans } from './kept-plans.ts'
import { pgpassPassword } from './pgpass.ts'

/** Where a PostgreSQL database is: by URL, by a file that holds the URL, or by its parts. */
export interface PostgresConfig {
  /** `postgres://user:password@host:port/database` */
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
  /** `require` and less do not check the certificate, as in libpq. */
  readonly sslMode?: 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full' | undefined
  /** Absolute PEM file of CAs that are trusted besides the system’s. */
  readonly caFile?: string | undefined
}

/** A database that does not answer is away after this. */
const CONNECT_MS = 2_000
const QUERY_MS = 60_000
/** A connection that is not needed is given back. */
const IDLE_MS = 30_000

interface PoolOptions {
  readonly postgres: PostgresConfig
  readonly connections: number
  readonly connectionWaitMs?: number
  readonly queryMs?: number
  readonly plansForAllValues?: boolean
  readonly log?: Logger
}

/** Kysely on a pool of so many connections. */
export function postgresDialect({
  postgres: config,
  connections,
  connectionWaitMs,
  queryMs = QUERY_MS,
  plansForAllValues,
  log,
}: PoolOptions): PostgresDialect {
  return new PostgresDialect({
    pool: async () => {
      const pool = new pg.Pool({
        ...clientConfig(config),
        max: connections,
        ...(connectionWaitMs === undefined ? {} : { connectionTimeoutMillis: connectionWaitMs }),
        idleTimeoutMillis: IDLE_MS,
        query_timeout: queryMs,
        async onConnect(client) {
          // The locks of one that stands still would hold all others up: these come through before they give up.
          await client.query(`set idle_in_transaction_session_timeout = ${queryMs / 2}`)
          if (plansForAllValues) await planForAllValues(client)
        },
      })
      // Without a listener an idle connection that is cut ends the process; the pool opens another one.
      pool.on('error', (error) => log?.warn({ err: error }, 'a connection to PostgreSQL was lost'))
      // So does one that is cut in use, on which the pool does not listen. Whoever uses it is told by what it asks.
      pool.on('connect', (client) => client.on('error', () => {}))
      return poolKeepingPlans(pool)
    },
  })
}

/** What one connection is made with; files are read now. */
export function clientConfig(config: PostgresConfig): pg.ClientConfig {
  const url = config.urlFile === undefined ? config.url : secretFile(config.urlFile)()
  const { sslMode = 'prefer' } = config
  return {
    ...(url === undefined
      ? { host: config.host, port: config.port ?? 5432, user: config.user, database: config.database }
      : { connectionString: url }),
    ...(config.passwordFile !== undefined && { password: secretFile(config.passwordFile) }),
    ...(config.pgpassFile !== undefined && { password: fromPgpass(config.pgpassFile, config) }),
    ...(sslMode === 'disable' || sslMode === 'prefer' ? {} : { ssl: tlsOf(config) }),
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    application_name: 'portico',
    types: { getTypeParser },
  } as pg.ClientConfig
}

function fromPgpass(file: string, { host = '', port = 5432, database = '', user = '' }: PostgresConfig): () => string {
  const readFile = secretFile(file)
  return function passwordFromPgpass() {
    const password = pgpassPassword(readFile(), { host, port, database, user })
    if (password !== undefined) return password
    throw new Error(`the file ${file} has no password for ${user} at ${host}:${port}/${database}`)
  }
}

function tlsOf({ sslMode, caFile }: PostgresConfig) {
  return {
    rejectUnauthorized: sslMode === 'verify-ca' || sslMode === 'verify-full',
    ...(sslMode === 'verify-ca' && { checkServerIdentity: () => undefined }),
    ...(caFile !== undefined && { ca: [...getCACertificates('default'), secretFile(caFile)()] }),
  }
}

const INT8 = 20
/** Counts come as 64-bit integers; none of ours outgrows a number. */
function getTypeParser(type: number, format?: 'text' | 'binary') {
  return type === INT8 ? Number : pg.types.getTypeParser(type, format as 'text')
}

/** What the network and Node say of a server that can't be reached. */
const AWAY =
  /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE)|Connection terminated|timeout exceeded|Query read timeout|Client (has encountered a connection error|was closed)|connection has been discarded/

/** Whether an error came out of PostgreSQL or of the way to it. */
export function isPostgresError(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return true
  if (!(error instanceof Error)) return false
  return AWAY.test((error as NodeJS.ErrnoException).code ?? '') || AWAY.test(error.message)
}

/** Whether the server can't be reached or is going down, whatever is asked of it. */
export function isPostgresAway(error: unknown): boolean {
  return error instanceof pg.DatabaseError ? /^(08|57P)/.test(error.code ?? '') : isPostgresError(error)
}

/** Whether two transactions got in each other's way: run again, each of them passes. */
export function isPostgresConflict(error: unknown): boolean {
  // serialization_failure, deadlock_detected, unique_violation and foreign_key_violation (of rows that were not there, or
  // were, when it was looked)
  return error instanceof pg.DatabaseError && ['40001', '40P01', '23505', '23503'].includes(error.code ?? '')
}

/**
 * Hears what is told on a channel (`NOTIFY`) until it is closed; `heard` is also called each time a connection was made,
 * without a text, since what was told before is lost. Connects again by itself; `lost` is called when it can't.
 */
export function listenPostgres(
  config: PostgresConfig,
  channel: string,
  { heard, lost }: { heard(text?: string): void; lost(error: Error): void },
): { close(): Promise<void> } {
  let client: pg.Client | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  async function connect(): Promise<void> {
    const next = new pg.Client(clientConfig(config))
    client = next
    let over = false
    const again = (error: Error) => {
      if (over || closed) return
      over = true
      lost(error)
      next.end().catch(() => {})
      timer = setTimeout(connect, RECONNECT_MS)
    }
    next.on('error', again)
    next.on('end', () => again(new Error('Connection terminated')))
    next.on('notification', ({ payload }) => heard(payload))
    try {
      await next.connect()
      await next.query(`listen "${channel}"`)
      heard()
    } catch (error) {
      again(error as Error)
    }
  }

  void connect()
  return {
    async close() {
      closed = true
      clearTimeout(timer)
      await client?.end().catch(() => {})
    },
  }
}

const RECONNECT_MS = 500
