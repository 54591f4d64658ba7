import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import {
  CompiledQuery,
  type DatabaseConnection,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely'

export interface SqliteOptions {
  readonly file: string
  /** Refuses writes. The file must exist. */
  readonly readOnly?: boolean
  /** Runs each statement, since it blocks the thread; absent: statements run directly. */
  readonly runBlocking?: RunBlocking | undefined
}

export type RunBlocking = <T>(call: () => T) => T

/** The longest wait for a lock of another process. After it the statement fails with SQLITE_BUSY. */
const BUSY_MS = 5_000
/** The write-ahead log is truncated to this size after a big transaction. */
const LOG_BYTES = 64 * 1024 * 1024
/** The log is written back at so many pages of 4 KiB. SQLite’s default, 1000, took a tenth of a first sync. */
const CHECKPOINT_PAGES = 8_000
/** The memory for cached pages of one connection, in KiB. */
const CACHE_KIB = 16 * 1024
/** The most compiled statements of a connection. The registry has fewer. */
const MOST_STATEMENTS = 256

/**
 * The Kysely dialect for `node:sqlite`. With a write-ahead log readers don't wait for the writer, and with
 * `synchronous=FULL` a commit is on the disk when it returns.
 */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig

  constructor(options: SqliteOptions) {
    const config = { database: async () => openFile(options) }
    super(config)
    this.#config = config
  }

  override createDriver(): SqliteDriver {
    return new WritingDriver(this.#config)
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalAdapter()
  }
}

/** Takes the write lock at the beginning of a transaction. After a read SQLite would fail instead of waiting for it. */
class WritingDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }
}

/** Runs schema changes in transactions, so that a killed migration leaves nothing behind. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

function openFile({ file, readOnly = false, runBlocking }: SqliteOptions): SqliteDatabase {
  const database = new DatabaseSync(file, { readOnly, timeout: BUSY_MS })
  try {
    configure(database, readOnly)
  } catch (error) {
    database.close()
    throw error
  }
  return adapt(database, runBlocking)
}

function configure(database: DatabaseSync, readOnly: boolean): void {
  database.exec(`pragma cache_size = -${CACHE_KIB}; pragma temp_store = memory`)
  if (readOnly) return
  database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on')
  database.exec(`pragma journal_size_limit = ${LOG_BYTES}; pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
}

/** Gives a database the interface of better-sqlite3, which Kysely needs, and a cache of compiled statements. */
function adapt(database: DatabaseSync, runBlocking: RunBlocking | undefined): SqliteDatabase {
  const compiled = new Map<string, SqliteStatement>()
  return {
    close: () => database.close(),
    prepare(sql) {
      const known = compiled.get(sql)
      if (known !== undefined) return known
      if (compiled.size >= MOST_STATEMENTS) compiled.clear()
      const plain = adaptStatement(database.prepare(sql))
      const statement = runBlocking === undefined ? plain : runStatementsBy(plain, runBlocking)
      compiled.set(sql, statement)
      return statement
    },
  }
}

function runStatementsBy({ reader, all, run, iterate }: SqliteStatement, runBlocking: RunBlocking): SqliteStatement {
  return {
    reader,
    all: (parameters) => runBlocking(() => all(parameters)),
    run: (parameters) => runBlocking(() => run(parameters)),
    iterate,
  }
}

function adaptStatement(statement: StatementSync): SqliteStatement {
  const columns = statement.columns().map(({ name }) => name)
  const buildRow = createRowBuilder(columns)
  const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[]
  statement.setReturnArrays(true)
  return {
    reader: columns.length > 0,
    all: (parameters) => statement.all(...values(parameters)).map(buildRow),
    run: (parameters) => statement.run(...values(parameters)),
    *iterate(parameters) {
      for (const row of statement.iterate(...values(parameters))) yield buildRow(row)
    },
  }
}

/**
 * Creates the function that builds a row from its values. It takes a thirtieth of the time of a page; the objects that
 * `node:sqlite` makes, which are dictionaries, took a sixth.
 */
function createRowBuilder(columns: readonly string[]): (values: unknown) => Record<string, unknown> {
  const fields = columns.map((column, index) => `${JSON.stringify(column)}: values[${index}]`)
  return new Function('values', `return { ${fields.join(', ')} }`) as ReturnType<typeof createRowBuilder>
}

/** Tells whether an error came from SQLite, such as a lock, a full disk or a damaged file. */
export function isSqliteError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR'
}

const SQLITE_BUSY = 5

export function isSqliteLocked(error: unknown): boolean {
  return isSqliteError(error) && ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY
}
