import type pg from 'pg'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openStore, type Store } from '../../../../dataplane/registry/sync/open-store.ts'
import { eventually } from '../../../support/eventually.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { openPostgres } from '../../../support/network/open-clients.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'
import { buildConfig, type RegistryFolder, registryFolder, runRegistry } from '../../../support/registry/registry.ts'

let postgres: TestPostgres
let folder: RegistryFolder
let url: string
let replicas: Store[]
let databases = 0

test.before(async () => {
  postgres = await startPostgres()
})
test.after(() => postgres.close())

test.before.each(async () => {
  folder = await registryFolder()
  url = await postgres.database(`settings${++databases}`)
  replicas = []
})
test.after.each(async () => {
  for (const replica of replicas) await replica.close()
  await folder.remove()
})

async function replica(): Promise<Store> {
  const place = { url, sslMode: 'disable' } as const
  const store = await openStore({ stateDirectory: folder.stateDirectory, postgres: place }, recordLog().log)
  replicas.push(store)
  return store
}

async function client(): Promise<pg.Client> {
  const client = openPostgres(url)
  await client.connect()
  return client
}

/** Uses another connection, since a transaction does not see that others begin to wait. */
async function waitForWaiter(): Promise<void> {
  const looking = await client()
  const waiting = 'select 1 from pg_stat_activity where datname = current_database() and wait_event_type = $1'
  await eventually('it waits', async () => (await looking.query(waiting, ['Lock'])).rows.length > 0)
  await looking.end()
}

const CLAIMS_LOCK = 7_461_002
const buildSource = (name: string, claims = {}) => ({ name, config: { managed: {} }, claims })

test('settings that conflict with a publication are still written', async () => {
  const other = await client()
  // PostgreSQL ends the transaction that detects the deadlock: with these timeouts always the store's.
  await other.query(`alter database settings${databases} set deadlock_timeout = '5s'`)
  await other.query(`set deadlock_timeout = '1h'`)
  const store = await replica()
  await store.applySettings({ sources: [buildSource('a'), buildSource('b')], registries: [] })
  await other.query('begin')
  await other.query(`select from source where name = 'b' for update`)
  const applied = store.applySettings({
    sources: [buildSource('a', { x: 'y' }), buildSource('b', { x: 'y' })],
    registries: [],
  })
  await waitForWaiter()
  // As when new claims are written.
  await other.query('select pg_advisory_xact_lock($1)', [CLAIMS_LOCK])
  await other.query('commit')
  await other.end()
  await applied
  assert.equal((await store.reader.source('b'))?.claims, { x: 'y' })
})

test('a source that a registry takes at the same moment is not removed', async () => {
  const at = new Date().toISOString()
  const [one, two] = [await replica(), await replica()]
  assert.is(await one.writer.putSource({ ...buildSource('a'), create: true, at }), 'done')
  // Another replica creates a registry.
  const other = await client()
  await other.query('begin')
  await other.query(
    `insert into registry (name, origin, created_at, updated_at, revision) values ('main', 'api', $1, $1, 'r')`,
    [at],
  )
  await other.query(
    'insert into registry_source (registry_id, source_id, position) select r.id, s.id, 0 from registry r, source s',
  )
  const removed = one.writer.removeSource({ name: 'a' })
  await waitForWaiter()
  await other.query('commit')
  assert.is(await removed, 'in_use')

  // The same in the opposite order.
  assert.is(await one.writer.putSource({ ...buildSource('b'), create: true, at }), 'done')
  await other.query('begin')
  await other.query(`delete from source where name = 'b'`)
  const put = two.writer.putRegistry({ name: 'late', sources: ['b'], claims: {}, create: true, at })
  await waitForWaiter()
  await other.query('commit')
  await other.end()
  assert.is(await put, 'no_source')
})

test('a configuration that is saved while the database is away is in force when that is back', async () => {
  const config = { ...buildConfig({}), sources: [{ name: 'own', managed: {} }], database: { url, sslMode: 'disable' } }
  const registries = (...names: string[]) => names.map((name) => ({ name, sources: ['own'] }))
  await folder.configure({ ...config, registries: registries('main') })
  const registry = await runRegistry(folder)
  try {
    await registry.ready()
    await postgres.crash()
    await folder.configure({ ...config, registries: registries('main', 'more') })
    await eventually('it waits', async () => (await registry.status()).refused.length > 0)
    assert.match((await registry.status()).refused[0]?.message ?? '', 'waits for the database')
    await postgres.start()
    const fetchMore = () => fetch(`${registry.url}/registry/more/v0.1/servers`)
    await eventually('it is in force', async () => (await fetchMore()).status === 200)
    await eventually('nothing is refused', async () => (await registry.status()).refused.length === 0)
  } finally {
    await registry.stop()
  }
})

test.run()
