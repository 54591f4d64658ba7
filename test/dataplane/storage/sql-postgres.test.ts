import { type Kysely, sql } from 'kysely'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isDatabaseError, openDatabase } from '../../../dataplane/storage/sql.ts'
import { isPostgresAway } from '../../../dataplane/storage/sql-postgres.ts'
import { eventually } from '../../support/eventually.ts'
import { type CutProxy, startCutProxy } from '../../support/network/cut-proxy.ts'
import { startPostgres, type TestPostgres } from '../../support/network/postgres.ts'

const test = suite('PostgreSQL behind a network that fails')
let postgres: TestPostgres
let proxy: CutProxy
/** The address without the proxy. */
let direct: string
let database: Kysely<unknown>
/** A connection that watches the others. */
let observer: Kysely<unknown>

/** Long enough for a statement on a busy machine. */
const QUERY_MS = 6_000
const PATIENCE_MS = 30_000

test.before(async () => {
  postgres = await startPostgres()
  direct = await postgres.database('cut')
  const url = new URL(direct)
  proxy = await startCutProxy({ host: '127.0.0.1', port: Number(url.port) })
  url.port = String(proxy.port)
  const place = { url: String(url), sslMode: 'disable' } as const
  database = openDatabase({
    dialect: 'postgres',
    postgres: place,
    connections: 1,
    connectionWaitMs: PATIENCE_MS,
    queryMs: QUERY_MS,
  })
  observer = openDatabase({
    dialect: 'postgres',
    postgres: { url: direct, sslMode: 'disable' },
    connections: 1,
    connectionWaitMs: PATIENCE_MS,
  })
})
test.after(async () => {
  await database.destroy()
  await observer.destroy()
  await proxy.close()
  await postgres.close()
})

const failure = (work: Promise<unknown>) =>
  work.then(
    () => assert.unreachable('it should have failed'),
    (error: unknown) => error,
  )
const answers = async () =>
  assert.equal((await sql<{ two: number }>`select 2 as two`.execute(database)).rows, [{ two: 2 }])

test('a connection that is cut during a query fails the query, and the next one works', async () => {
  await answers()
  const error = failure(sql`select pg_sleep(30)`.execute(database))
  const isAsked = async () => {
    const sleeping = sql`select 1 from pg_stat_activity where state = 'active' and query = 'select pg_sleep(30)'`
    return (await sleeping.execute(observer)).rows.length > 0
  }
  await eventually('it is called', isAsked)
  proxy.cut()
  assert.ok(isPostgresAway(await error))
  await answers()
})

test('a connection that is cut in the middle of a transaction fails it, and the next one works', async () => {
  const error = await failure(
    database.transaction().execute(async (transaction) => {
      await sql`create table half (id integer)`.execute(transaction)
      proxy.cut()
      await new Promise((resolve) => setTimeout(resolve, 50))
      await sql`select 1`.execute(transaction)
    }),
  )
  assert.ok(isDatabaseError(error))
  await answers()
  assert.equal((await sql`select 1 from pg_class where relname = 'half'`.execute(database)).rows, [])
})

test('a connection to a silent server is given up, with its transaction', async () => {
  const transact = () => database.transaction().execute((transaction) => sql`select 1`.execute(transaction))
  await transact()
  proxy.freeze()
  assert.ok(isPostgresAway(await failure(transact())))
  proxy.thaw()
  await sql`create table kept (id integer)`.execute(database)
  const { rows } = await sql`select 1 from pg_class where relname = 'kept'`.execute(observer)
  assert.is(rows.length, 1)
})

test('a transaction fails if the server falls silent in the middle', async () => {
  const error = await failure(
    database.transaction().execute(async (transaction) => {
      await sql`select 1`.execute(transaction)
      proxy.freeze()
      await sql`select 1`.execute(transaction)
    }),
  )
  assert.ok(isPostgresAway(error))
  proxy.thaw()
  await answers()
})

test('a transaction of a stopped process blocks others for half of their timeout', async () => {
  await sql`create table held (id integer)`.execute(database)
  let through = false
  const error = await failure(
    database.transaction().execute(async (transaction) => {
      await sql`insert into held values (1)`.execute(transaction)
      await sql`truncate held`.execute(observer)
      through = true
      await sql`insert into held values (2)`.execute(transaction)
    }),
  )
  assert.ok(through)
  assert.ok(isPostgresAway(error))
  assert.equal((await sql`select * from held`.execute(observer)).rows, [])
})

test.run()
