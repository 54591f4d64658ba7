import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isDatabaseError, openDatabase } from '../../../dataplane/storage/sql.ts'

interface Tables {
  thing: { id: number; text: string }
}

let directory: string
let file: string
let database: Kysely<Tables>

test.before.each(async () => {
  directory = await mkdtemp(join(tmpdir(), 'portico-sql-'))
  file = join(directory, 'test.sqlite')
  database = openDatabase<Tables>({ dialect: 'sqlite', file })
  await sql`create table thing (id integer primary key, text text not null)`.execute(database)
})
test.after.each(async () => {
  await database.destroy()
  await rm(directory, { recursive: true })
})

const failure = (work: Promise<unknown>) =>
  work.then(
    () => assert.unreachable('it should have failed'),
    (error: unknown) => error,
  )

test('rows are written and read, also many by one statement', async () => {
  const rows = Array.from({ length: 1000 }, (_, id) => ({ id, text: `text ${id}` }))
  await database.insertInto('thing').values(rows).execute()
  assert.equal(await database.selectFrom('thing').selectAll().orderBy('id').execute(), rows)
  const streamed: unknown[] = []
  for await (const row of database.selectFrom('thing').select('text').where('id', '<', 2).stream()) streamed.push(row)
  assert.equal(streamed, [{ text: 'text 0' }, { text: 'text 1' }])
  const { numDeletedRows } = await database.deleteFrom('thing').where('id', '<', 10).executeTakeFirstOrThrow()
  assert.is(numDeletedRows, 10n)
})

test('a reader sees the state before a running transaction, then the one after it', async () => {
  const reader = openDatabase<Tables>({ dialect: 'sqlite', file, readOnly: true })
  const count = () =>
    reader
      .selectFrom('thing')
      .selectAll()
      .execute()
      .then((rows) => rows.length)
  await database.transaction().execute(async (transaction) => {
    await transaction.insertInto('thing').values({ id: 1, text: 'a' }).execute()
    assert.is(await count(), 0)
  })
  assert.is(await count(), 1)
  await reader.destroy()
})

test('a connection for reading refuses to write', async () => {
  const reader = openDatabase<Tables>({ dialect: 'sqlite', file, readOnly: true })
  const error = await failure(reader.insertInto('thing').values({ id: 1, text: 'a' }).execute())
  assert.ok(isDatabaseError(error))
  assert.match((error as Error).message, /readonly/)
  await reader.destroy()
})

test('a transaction that fails leaves nothing', async () => {
  await failure(
    database.transaction().execute(async (transaction) => {
      await transaction.insertInto('thing').values({ id: 1, text: 'a' }).execute()
      throw new Error('no')
    }),
  )
  assert.is((await database.selectFrom('thing').selectAll().execute()).length, 0)
})

test('a migration that fails half way leaves no table', async () => {
  const migrator = new Migrator({
    db: database,
    provider: {
      getMigrations: async () => ({
        '0001-half': {
          async up(db: Kysely<unknown>) {
            await sql`create table half (id integer)`.execute(db)
            await sql`create table half (id integer)`.execute(db)
          },
        },
      }),
    },
  })
  const { error } = await migrator.migrateToLatest()
  assert.ok(isDatabaseError(error))
  const tables = await sql<{ name: string }>`select name from sqlite_master where name = 'half'`.execute(database)
  assert.equal(tables.rows, [])
})

test('foreign keys are enforced', async () => {
  await sql`create table part (thing integer not null references thing (id))`.execute(database)
  assert.ok(isDatabaseError(await failure(sql`insert into part values (7)`.execute(database))))
})

test('a file that is no database fails as a database does; other errors don’t', async () => {
  const other = join(directory, 'other.sqlite')
  await writeFile(other, 'hello, hello, hello, hello, hello, hello, hello, hello, hello, hello, hello, hello')
  const broken = openDatabase<Tables>({ dialect: 'sqlite', file: other })
  assert.ok(isDatabaseError(await failure(broken.selectFrom('thing').selectAll().execute())))
  assert.not(isDatabaseError(new Error('x')))
})

test.run()
