import { hash } from 'node:crypto'
import { PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import {
  connectInTurn,
  extractTls,
  isTlsError,
  listTransports,
  type TlsSettings,
  type Transport,
} from './postgres-tls.ts'

export interface PostgresConfig extends TlsSettings {
  readonly url?: string | undefined
  /** An absolute path. The file is read whenever a connection is opened, so that a secret can rotate. */
  readonly urlFile?: string | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly user?: string | undefined
  readonly passwordFile?: string | undefined
  /** A pgpass file that has the password. */
  readonly pgpassFile?: string | undefined
  readonly database?: string | undefined
}

/** A server that does not answer within this time counts as unreachable. */
const CONNECT_MS = 2_000
const QUERY_MS = 60_000
const IDLE_MS = 30_000

export interface PoolOptions {
  readonly postgres: PostgresConfig
  readonly connections: number
  readonly connectionWaitMs?: number
  /** The longest wait for the answer to a statement in milliseconds; 0: no limit, absent: a minute. */
  readonly queryMs?: number
  /** True if the best plan of each prepared statement is the same for all values. */
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

/** A line of a pgpass file: four fields that end with a colon, and the password. */
const PGPASS_LINE = new RegExp(`^${'((?:\\\\.|[^\\\\:])*):'.repeat(4)}(.*)$`)

/** Creates the Kysely dialect for PostgreSQL, with a pool of connections. */
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
      const { transports, ...client } = buildClientConfig(config)
      const pool = new pg.Pool({
        ...client,
        ssl: transports[0],
        max: connections,
        ...(connectionWaitMs === undefined ? {} : { connectionTimeoutMillis: connectionWaitMs }),
        idleTimeoutMillis: IDLE_MS,
        query_timeout: queryMs,
        async onConnect(client) {
          // The locks of a transaction that has stalled would block all others.
          await client.query(`set idle_in_transaction_session_timeout = ${queryMs / 2}`)
          if (plansForAllValues) await planForAllValues(client)
        },
      })
      // Without a listener, an idle connection that is lost would end the process. The pool opens another one.
      pool.on('error', (error) => log?.warn({ err: error }, 'a connection to PostgreSQL was lost'))
      // The pool does not listen on a connection in use, which would end the process too.
      pool.on('connect', (client) => client.on('error', ignoreLoss))
      return createKyselyPool(pool, async () => {
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

/** Makes a pool open one connection with this transport; `usual` is that of its other connections. */
function connectBy(pool: pg.Pool, transport: Transport, usual: Transport): Promise<pg.PoolClient> {
  const options = pool.options as { ssl?: Transport }
  options.ssl = transport
  // The pool reads its options before this call returns.
  const connecting = pool.connect()
  options.ssl = usual
  return connecting
}

interface ClientConfig extends pg.ClientConfig {
  /** The transports, in the order in which they are tried. */
  readonly transports: readonly [Transport, ...Transport[]]
}

export function buildClientConfig(config: PostgresConfig): ClientConfig {
  const given = config.urlFile === undefined ? config.url : secretFile(config.urlFile)()
  const { url, tls } = given === undefined ? { url: given, tls: config } : extractTls(given, config)
  return {
    ...(url === undefined
      ? { host: config.host, port: config.port ?? 5432, user: config.user, database: config.database }
      : { connectionString: url }),
    ...(config.passwordFile !== undefined && { password: secretFile(config.passwordFile) }),
    ...(config.pgpassFile !== undefined && { password: createPgpassReader(config.pgpassFile, config) }),
    transports: listTransports(tls),
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    application_name: 'portico',
    types: { getTypeParser },
  } as ClientConfig
}

function createPgpassReader(
  file: string,
  { host = '', port = 5432, database = '', user = '' }: PostgresConfig,
): () => string {
  const readFile = secretFile(file)
  return function passwordFromPgpass() {
    const password = findPgpassPassword(readFile(), { host, port, database, user })
    if (password !== undefined) return password
    throw new Error(`the file ${file} has no password for ${user} at ${host}:${port}/${database}`)
  }
}

const INT8 = 20
/** Parses 64-bit integers as numbers. They are counts, which are never too large for that. */
function getTypeParser(type: number, format?: 'text' | 'binary') {
  return type === INT8 ? Number : pg.types.getTypeParser(type, format as 'text')
}

/** The errors of the network, Node and the driver for a server that can't be reached. */
const UNREACHABLE =
  /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE)|Connection terminated|timeout exceeded|Query read timeout|Client (has encountered a connection error|was closed)|connection has been discarded/

/** Tells whether an error came from PostgreSQL, or from the connection to it. */
export function isPostgresError(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return true
  if (!(error instanceof Error)) return false
  if (isTlsError(error)) return true
  return UNREACHABLE.test((error as NodeJS.ErrnoException).code ?? '') || UNREACHABLE.test(error.message)
}

/** Tells whether the server can't be reached or is shutting down, so that all statements fail. */
export function isPostgresAway(error: unknown): boolean {
  return error instanceof pg.DatabaseError ? /^(08|57P)/.test(error.code ?? '') : isPostgresError(error)
}

/** Tells whether two transactions were in conflict, so that a retry succeeds. */
export function isPostgresConflict(error: unknown): boolean {
  // serialization_failure, deadlock_detected, unique_violation and foreign_key_violation
  return error instanceof pg.DatabaseError && ['40001', '40P01', '23505', '23503'].includes(error.code ?? '')
}

/**
 * Listens on a channel (`LISTEN`) until closed. It also calls `onNotification`, without a text, each time it has
 * connected, since notifications may have been lost before.
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
    const { transports, ...settings } = buildClientConfig(config)
    const next = await connectInTurn(transports, (ssl) => connectClient(new pg.Client({ ...settings, ssl })))
    if (closed) return next.end()
    client = next
    let over = false
    const end = (error: Error) => {
      if (over) return
      over = true
      next.end().catch(() => {
        // The connection is lost anyway.
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
        // The connection is lost anyway.
      })
    },
  }
}

function ignoreLoss(): void {
  // The query in progress fails. Without a listener the event would end the process.
}

/** Connects a client, and ends it if it can't connect. */
async function connectClient(client: pg.Client): Promise<pg.Client> {
  client.on('error', ignoreLoss)
  try {
    await client.connect()
    return client
  } catch (error) {
    client.end().catch(() => {
      // The reason of the failure is thrown below.
    })
    throw error
  }
}

const RECONNECT_MS = 500

/**
 * Finds the password in a pgpass file: that of the first line `host:port:database:user:password` that matches. `*`
 * matches anything, and a backslash escapes (PostgreSQL, section 34.16).
 */
export function findPgpassPassword(text: string, { host, port, database, user }: PgpassKey): string | undefined {
  const wanted = [host, String(port), database, user]
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    const [, ...fields] = PGPASS_LINE.exec(line) ?? []
    const password = fields.pop()
    if (
      password !== undefined &&
      fields.every((field, index) => field === '*' || unescapeField(field) === wanted[index])
    )
      return unescapeField(password)
  }
  return undefined
}

const unescapeField = (field: string) => field.replace(/\\(.)/g, '$1')

const PREPARED_MARK = '/* kept */ '

/** Marks a statement as one that each connection prepares and keeps, which is for few statements. */
export function asPreparedStatement(statement: string): string {
  return PREPARED_MARK + statement
}

/**
 * Makes a connection use generic plans, since planning a join of six tables takes as long as reading a page. The best
 * plan of its statements must not depend on their values.
 */
async function planForAllValues(client: pg.ClientBase): Promise<void> {
  await client.query('set plan_cache_mode = force_generic_plan')
}

/**
 * Creates a pool for Kysely with connections from `connect`. A connection whose query has timed out is not used again,
 * since its server may be unreachable, or still run the query.
 */
function createKyselyPool(pool: pg.Pool, connect: () => Promise<pg.PoolClient>): PostgresPool {
  const names = new Map<string, string>()
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>()

  function nameStatement(text: string): string {
    let name = names.get(text)
    if (name === undefined) names.set(text, (name = hash('sha256', text, 'base64url')))
    return name
  }

  function adapt(client: pg.PoolClient): PostgresPoolClient {
    const query = (text: string, values: unknown[]) =>
      client
        .query(text.startsWith(PREPARED_MARK) ? { name: nameStatement(text), text, values } : { text, values })
        .catch((error: Error) => {
          if (error.message === 'Query read timeout')
            (client as pg.PoolClient & pg.Client).end().catch(() => {
              // The error of the query is thrown below.
            })
          throw error
        })
    // Kysely uses the other form of `query` only for dialects with a cursor.
    return { query: query as unknown as PostgresPoolClient['query'], release: (destroy) => client.release(destroy) }
  }

  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await connect()
      let adapted = clients.get(client)
      // Kysely compares connections by identity, so each keeps its object.
      if (adapted === undefined) clients.set(client, (adapted = adapt(client)))
      return adapted
    },
  }
}
