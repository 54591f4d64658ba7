import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely, sql } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { applySettings } from '../../../../dataplane/registry/store/apply/apply-settings.ts'
import { applySync } from '../../../../dataplane/registry/store/apply/apply-sync.ts'
import { openForReading, openForWriting } from '../../../../dataplane/registry/store/database/open.ts'
import type { RegistryTables } from '../../../../dataplane/registry/store/database/schema.ts'
import { createReader } from '../../../../dataplane/registry/store/read/read.ts'
import { createSnapshot } from '../../../../dataplane/registry/store/read/snapshot.ts'
import { NodeSqliteDialect } from '../../../../dataplane/storage/sql-sqlite.ts'
import { eventually } from '../../../support/eventually.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'
import { parseCatalog } from '../../../support/registry/parse-catalog.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'

let postgres: TestPostgres
test.before(async () => {
  postgres = await startPostgres()
})
test.after(() => postgres.close())

test('every read is a range of an index: nothing is scanned, nothing sorted', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'portico-plans-'))
  const database = await openForWriting(join(directory, 'catalog.sqlite'))
  await applySettings(database, {
    sources: [{ name: 'a', config: { file: { path: 'a.json' } }, claims: {} }],
    registries: [{ name: 'main', sources: ['a'], claims: {} }],
  })
  const { versions } = await parseCatalog(Buffer.from(registryFile([server('x/one'), server('x/two')])))
  const now = new Date().toISOString()
  await applySync(database, {
    source: 'a',
    settingsHash: '',
    cursor: '',
    complete: true,
    problems: '[]',
    now,
    versions,
  })
  await database.destroy()
  const reading = openForReading(join(directory, 'catalog.sqlite'))
  const queries: { sql: string; parameters: readonly unknown[] }[] = []
  const logged = new Kysely<RegistryTables>({
    dialect: new NodeSqliteDialect({ file: join(directory, 'catalog.sqlite'), readOnly: true }),
    log({ query }) {
      queries.push(query)
    },
  })
  const watched = createReader(logged, await createSnapshot(reading))
  for (const visible of ['all', [0], [0, 1, 2, 3, 4]] as const) {
    const scope = { type: 'server', visible, registry: 'main', includeDeleted: false } as const
    const page = { ...scope, limit: 10 }
    const after = { name: 'x/one', version: '0.1.0' }
    await watched.list(page)
    await watched.list({ ...page, after })
    await watched.list({ ...page, after, version: 'latest', search: 'a', updatedSince: '2026-01-01T00:00:00.000Z' })
    await watched.list({ ...page, version: '1.0.0', includeDeleted: true })
    await watched.versions({ ...scope, name: 'x/one' })
    await watched.version({ ...scope, name: 'x/one', version: 'latest' })
    await watched.version({ ...scope, name: 'x/one', version: '1.0.0' })
  }
  await logged.destroy()
  await reading.destroy()

  assert.ok(queries.length >= 3 * 11, `${queries.length} statements`)
  const file = new DatabaseSync(join(directory, 'catalog.sqlite'))
  for (const { sql, parameters } of queries) {
    const plan = file.prepare(`explain query plan ${sql}`).all(...(parameters as string[]))
    const steps = plan.map(({ detail }) => String(detail))
    // A list in the query is read as a whole.
    for (const step of steps)
      if (
        /SCAN (?!json_each|version_search|[cop]\b|\(subquery)|AUTOMATIC/.test(step) ||
        (/TEMP B-TREE/.test(step) && !/json_each.*\) f\b/s.test(sql))
      )
        assert.unreachable(`${sql}\n${steps.join('\n')}`)
  }
  file.close()
  await rm(directory, { recursive: true })
})

test('PostgreSQL plans a page once, however long it is and whoever reads it', async () => {
  const place = { url: await postgres.database('plans'), sslMode: 'disable' } as const
  const writing = await openForWriting(place)
  await applySettings(writing, { sources: [], registries: [{ name: 'main', sources: [], claims: {} }] })
  await writing.destroy()
  const reading = openForReading(place)
  const reader = createReader(reading, await createSnapshot(reading))
  for (const visible of ['all', [0], Array.from({ length: 20 }, (_, set) => set)] as const)
    for (let limit = 1; limit <= 20; limit++)
      await reader.list({ registry: 'main', type: 'server', visible, limit, includeDeleted: false, search: 'abc' })
  const { rows } = await sql<{ plans: string; anew: string }>`
    select sum(generic_plans)::int as plans, sum(custom_plans)::int as anew from pg_prepared_statements`.execute(
    reading,
  )
  await reading.destroy()
  assert.equal(rows, [{ plans: 60, anew: 0 }])
})

test('a new source in PostgreSQL is not read repeatedly because of another source’s statistics', async () => {
  const database = await openForWriting({ url: await postgres.database('statistics'), sslMode: 'disable' })
  const source = (name: string) => ({ name, config: { file: { path: `${name}.json` } }, claims: {} })
  await applySettings(database, {
    sources: [source('first'), source('large')],
    registries: [{ name: 'main', sources: ['first', 'large'], claims: {} }],
  })
  const bring = async (name: string, count: number) => {
    const servers = Array.from({ length: count }, (_, index) => server(`com.example/tool-${index}`))
    const { versions } = await parseCatalog(Buffer.from(registryFile(servers)))
    const end = { settingsHash: '', cursor: '', complete: true, problems: '[]', now: new Date().toISOString() }
    await applySync(database, { source: name, versions, ...end })
  }
  const rowsRead = async () => {
    const { rows } = await sql<{ count: number }>`
      select sum(idx_tup_read)::int as count from pg_stat_user_indexes
      where indexrelname in ('staged_version_key', 'entry_key')`.execute(database)
    return rows[0]?.count ?? 0
  }
  await bring('first', 50)
  await bring('large', 1_000)
  // A connection reports its reads when it is idle, at the latest when it ends.
  await eventually('the read rows are counted', async () => (await rowsRead()) > 0)
  assert.ok((await rowsRead()) < 100_000, `${await rowsRead()} rows were read for 1,000 entries`)
  await database.destroy()
})

test.run()
