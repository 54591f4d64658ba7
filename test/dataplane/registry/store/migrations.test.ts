import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createTables } from '../../../../dataplane/registry/store/database/migrations/0001-tables.ts'
import { createSearch } from '../../../../dataplane/registry/store/database/migrations/0002-search.ts'
import { joinWords } from '../../../../dataplane/registry/store/database/migrations/0003-search-key.ts'
import { searchedFirst } from '../../../../dataplane/registry/store/database/migrations/0004-searched-first.ts'
import { keepBytes } from '../../../../dataplane/registry/store/database/migrations/0005-bytes.ts'
import { openForWriting } from '../../../../dataplane/registry/store/database/open.ts'
import type { RegistryTables } from '../../../../dataplane/registry/store/database/schema.ts'
import { openDatabase } from '../../../../dataplane/storage/sql.ts'
import { eventually } from '../../../support/eventually.ts'
import { openPostgres } from '../../../support/network/open-clients.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'

const test = suite('migrations of PostgreSQL')
let postgres: TestPostgres
let database: Kysely<RegistryTables>
let url: string

test.before(async () => {
  postgres = await startPostgres()
  url = await postgres.database('migrations')
  database = openDatabase({ dialect: 'postgres', postgres: { url, sslMode: 'disable' }, connections: 1 })
})

test.after(async () => {
  await database.destroy()
  await postgres.close()
})

const TABLE = 'entry_version'
/** Returns the schema without the order of the columns. */
async function readShape(): Promise<object> {
  const columns = sql`
    select column_name, data_type, collation_name, is_nullable, is_identity, identity_generation, generation_expression
    from information_schema.columns where table_name = ${TABLE} order by column_name`
  const constraints = sql`
    select conname, pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = ${TABLE}::regclass and contype <> 'n' order by conname`
  const indexes = sql`select indexdef from pg_indexes where tablename = ${TABLE} order by indexname`
  const sequence = sql`select pg_get_serial_sequence(${TABLE}, 'id') as name`
  const shape: Record<string, unknown> = {}
  for (const [kind, query] of Object.entries({ columns, constraints, indexes, sequence }))
    shape[kind] = (await query.execute(database)).rows
  return shape
}

const versions = () => database.selectFrom('entry_version').selectAll().orderBy('id').execute()

/** Uses another connection, since a transaction does not see that others begin to wait. */
async function waitForWaiter(name: string): Promise<void> {
  const client = openPostgres(url)
  await client.connect()
  const waiting = `select 1 from pg_stat_activity where datname = '${name}' and wait_event_type = 'Lock'`
  await eventually('it waits', async () => (await client.query(waiting)).rows.length > 0)
  await client.end()
}

test('0004 brings columns into another order and loses nothing', async () => {
  for (const { up } of [createTables, createSearch, joinWords]) await up(database)
  const now = '2026-01-01T00:00:00.000Z'
  await sql`
    insert into source (name, origin, config, inherits, created_at, updated_at)
    values ('one', 'config', '{}', 0, ${now}, ${now})`.execute(database)
  await sql`insert into entry (source_id, type, name) values (1, 'server', 'com.example/one')`.execute(database)
  await sql`
    insert into entry_version (entry_id, version, precedence, status, status_message, status_changed_at, published_at,
      updated_at, gone_at, title, description, search_text, content_hash, other_meta, document_id)
    select 1, 'v' || n, 'p' || n, 'active', 'message ' || n, 'changed ' || n, 'published ' || n, 'updated ' || n,
      nullif('gone ' || n, 'gone 2'), 'title ' || n, 'description ' || n, 'search text, ' || n, 'hash ' || n,
      '{"n":' || n || '}', n
    from generate_series(1, 3) as n`.execute(database)
  await database.deleteFrom('entry_version').where('id', '=', 3).execute()
  const [shape, rows] = [await readShape(), await versions()]
  assert.is(rows.length, 2)

  // A replica of the previous version publishes meanwhile.
  const other = openPostgres(url)
  await other.connect()
  await other.query('begin')
  await other.query('update entry_version set title = $1 where id = 2', ['published last'])
  const migrated = database.transaction().execute((transaction) => searchedFirst.up(transaction))
  await waitForWaiter('migrations')
  await other.query('commit')
  await other.end()
  await migrated
  Object.assign(rows[1] as object, { title: 'published last' })

  assert.equal(await readShape(), shape)
  assert.equal(await versions(), rows)
  const { rows: next } = await sql<{ id: number }>`
    select nextval(pg_get_serial_sequence(${TABLE}, 'id'))::int as id`.execute(database)
  assert.ok((next[0]?.id ?? 0) > 3, 'a number is never given twice')
  await database.deleteFrom('entry').execute()
  assert.equal(await versions(), [])
})

test('0005 counts the bytes of existing versions', async () => {
  const now = '2026-01-01T00:00:00.000Z'
  await sql`insert into entry (source_id, type, name) values (1, 'server', 'com.example/two')`.execute(database)
  await sql`insert into document (id, source_id, text) values (1, 1, ${'ä'.repeat(10)}), (2, 1, '{}')`.execute(database)
  await sql`
    insert into entry_version (entry_id, version, precedence, status, status_message, status_changed_at, published_at,
      updated_at, search_text, content_hash, other_meta, document_id)
    select max(e.id), v, v, 'active', message, ${now}, ${now}, ${now}, '', '', meta, document
    from entry e, (values ('1', 'old', '{"ü":1}', 1), ('2', null, null, 2)) as n(v, message, meta, document)
    group by v, message, meta, document`.execute(database)
  await keepBytes.up(database)
  const { rows } = await sql`select version, bytes from entry_version order by version`.execute(database)
  assert.equal(rows, [
    { version: '1', bytes: 20 + 3 + 8 },
    { version: '2', bytes: 2 },
  ])
})

test('a migration succeeds beside a replica of the previous version', async () => {
  const url = await postgres.database('rolling')
  const place = { url, sslMode: 'disable' } as const
  const before = openDatabase({ dialect: 'postgres', postgres: place, connections: 1 })
  const migrations = { '0001-tables': createTables, '0002-search': createSearch, '0003-search-key': joinWords }
  const { error } = await new Migrator({
    db: before,
    provider: { getMigrations: async () => migrations },
  }).migrateToLatest()
  assert.is(error, undefined)
  await before.destroy()

  // It reads a table that the update has yet to lock, then one that it has locked.
  const other = openPostgres(url)
  await other.connect()
  // PostgreSQL ends the transaction that detects the deadlock: with these timeouts always the update.
  await other.query(`alter database rolling set deadlock_timeout = '5s'`)
  await other.query(`set deadlock_timeout = '1h'`)
  await other.query('begin')
  await other.query('select from entry_version')
  const opened = openForWriting(place)
  await waitForWaiter('rolling')
  await other.query('select from entry')
  await other.query('commit')
  await other.end()
  await (await opened).destroy()
})

test.run()
