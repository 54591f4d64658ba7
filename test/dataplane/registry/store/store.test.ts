import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { applySettings, type StoreSettings } from '../../../../dataplane/registry/store/apply/apply-settings.ts'
import { applySync, stageSync } from '../../../../dataplane/registry/store/apply/apply-sync.ts'
import {
  openForReading,
  openForWriting,
  type StoreLocation,
} from '../../../../dataplane/registry/store/database/open.ts'
import type { RegistryTables } from '../../../../dataplane/registry/store/database/schema.ts'
import { setStatus } from '../../../../dataplane/registry/store/publish/change-entry.ts'
import { publishAll } from '../../../../dataplane/registry/store/publish/publish.ts'
import { createReader, type Reader } from '../../../../dataplane/registry/store/read/read.ts'
import { createSnapshot } from '../../../../dataplane/registry/store/read/snapshot.ts'
import { startPostgres, type TestPostgres } from '../../../support/network/postgres.ts'
import { parseCatalog } from '../../../support/registry/parse-catalog.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'
import { publication } from '../../../support/registry/store.ts'

let directory: string
let postgres: TestPostgres
let place: StoreLocation
let database: Kysely<RegistryTables>
let reading: Kysely<RegistryTables>
let reader: Reader
let databases = 0

test.before(async () => {
  postgres = await startPostgres()
})
test.after(() => postgres.close())

/** Runs the contract test on both databases. */
function testBothStores(name: string, run: () => Promise<void>): void {
  for (const kind of ['SQLite', 'PostgreSQL'])
    test(`${kind}: ${name}`, async () => {
      directory = await mkdtemp(join(tmpdir(), 'portico-store-'))
      place =
        kind === 'SQLite'
          ? join(directory, 'catalog.sqlite')
          : { url: await postgres.database(`store${++databases}`), sslMode: 'disable' }
      database = await openForWriting(place)
      reading = openForReading(place)
      try {
        await refresh()
        await run()
      } finally {
        await reading.destroy()
        await database.destroy()
        await rm(directory, { recursive: true })
      }
    })
}

/** Refreshes what a request knows about the store. */
async function refresh(): Promise<void> {
  reader = createReader(reading, await createSnapshot(reading))
}

const settings = (registries: Record<string, string[]>, sources = [...new Set(Object.values(registries).flat())]) =>
  ({
    sources: sources.map((name) => ({ name, config: { file: { path: `${name}.json` } }, claims: {} })),
    registries: Object.entries(registries).map(([name, sources]) => ({ name, sources, claims: {} })),
  }) satisfies StoreSettings

async function configure(...args: Parameters<typeof settings>): Promise<void> {
  await applySettings(database, settings(...args))
  await refresh()
}

const servers = { type: 'server', visible: 'all' } as const

const DAY_MS = 86_400_000
/** Syncs a source; `day` counts days from a fixed one. */
async function sync(source: string, entries: readonly string[], day = 0, text = 'text') {
  const servers = entries.map((entry) => {
    const [name = '', version = '1.0.0'] = entry.split('@')
    return server(name, version, { description: `${text} of ${source}` })
  })
  const { versions, problems } = await parseCatalog(Buffer.from(registryFile(servers)))
  await applySync(database, {
    source,
    settingsHash: 'settings',
    cursor: `${entries}`,
    complete: true,
    versions,
    problems: JSON.stringify(problems),
    now: new Date(Date.UTC(2026, 0, 1) + day * DAY_MS).toISOString(),
  })
}

async function list(registry: string, includeDeleted = false): Promise<string[]> {
  const { rows } = await reader.list({ ...servers, registry, limit: 1000, includeDeleted })
  return rows.map(({ name, version, document }) => `${name}@${version} ${/of (\w+)/.exec(document)?.[1]}`)
}

testBothStores('only Kubernetes sources can say which object of a cluster an entry stands for', async () => {
  const config = {
    cluster: { kubernetes: { namespaces: [] } },
    file: { file: { data: '"kubernetes"' } },
    api: { api: { endpoint: 'https://r.example' } },
  }
  const sources = Object.keys(config) as (keyof typeof config)[]
  await applySettings(database, {
    sources: sources.map((name) => ({ name, config: config[name], claims: {} })),
    registries: [{ name: 'main', sources, claims: {} }],
  })
  await refresh()
  const kubernetes = { kind: 'MCPServer', namespace: 'default', name: 'weather', uid: 'u1' }
  const _meta = { 'io.modelcontextprotocol.registry/publisher-provided': { p: { x: { metadata: { kubernetes } } } } }
  const end = { settingsHash: '', complete: true, problems: '[]', now: new Date().toISOString() }
  for (const source of sources) {
    const { versions } = await parseCatalog(Buffer.from(registryFile([server(`x/${source}`, '1.0.0', { _meta })])))
    await applySync(database, { ...end, source, cursor: source, versions })
  }
  await refresh()
  const { rows } = (await reader.gate('main', undefined)) as { rows: readonly string[] }
  const found = rows.map((row) => JSON.parse(row) as { readonly name: string; readonly kubernetes?: object })
  assert.equal(
    found.map((row) => [row.name, row.kubernetes]),
    [
      ['x/api', undefined],
      ['x/cluster', kubernetes],
      ['x/file', undefined],
    ],
  )
})

testBothStores(
  'a name belongs to the first source of the registry that has it, with all its versions and no others',
  async () => {
    await configure({ abc: ['a', 'b', 'c'], cba: ['c', 'b', 'a'], b: ['b'] })
    await sync('a', ['x/one@2.0.0'])
    await sync('b', ['x/one@1.0.0', 'x/one@3.0.0', 'x/two'])
    await sync('c', ['x/two@0.1.0', 'x/three'])
    assert.equal(await list('abc'), ['x/one@2.0.0 a', 'x/three@1.0.0 c', 'x/two@1.0.0 b'])
    assert.equal(await list('cba'), ['x/one@1.0.0 b', 'x/one@3.0.0 b', 'x/three@1.0.0 c', 'x/two@0.1.0 c'])
    assert.equal(await list('b'), ['x/one@1.0.0 b', 'x/one@3.0.0 b', 'x/two@1.0.0 b'])
    for (const [registry, version] of [
      ['abc', '2.0.0'],
      ['cba', '3.0.0'],
    ] as const) {
      const row = await reader.version({
        ...servers,
        registry,
        name: 'x/one',
        version: 'latest',
        includeDeleted: false,
      })
      assert.equal([row?.version, row?.is_latest], [version, 1])
    }
  },
)

testBothStores('concurrent look-ups are each answered by their own name, registry and caller', async () => {
  await configure({ ab: ['a', 'b'], b: ['b'] })
  const names = Array.from({ length: 70 }, (_, index) => `x/n${index}`)
  await sync(
    'a',
    names.filter((_, index) => index % 2 === 0).flatMap((name) => [`${name}@1.0.0`, `${name}@2.0.0`]),
  )
  await sync(
    'b',
    names.map((name) => `${name}@3.0.0`),
  )
  const lookUp = async (registry: string, visible: 'all' | number[], name: string) => {
    const scope = { type: 'server', includeDeleted: false, version: 'latest' } as const
    const row = await reader.version({ ...scope, registry, visible, name })
    return row && `${row.name}@${row.version}`
  }
  const found = await Promise.all(
    [...names, 'x/none', ...names].map((name) =>
      Promise.all([
        lookUp('ab', 'all', name),
        lookUp('b', 'all', name),
        lookUp('ab', [0], name),
        lookUp('ab', [-1], name),
      ]),
    ),
  )
  const expected = names.map((name, index) => {
    const first = `${name}@${index % 2 === 0 ? 2 : 3}.0.0`
    return [first, `${name}@3.0.0`, first, undefined]
  })
  assert.equal(found, [...expected, [undefined, undefined, undefined, undefined], ...expected])
})

testBothStores('tombstones hide no living entry, and are shown only for names without one', async () => {
  await configure({ main: ['a', 'b'] })
  await sync('a', ['x/one@1.0.0', 'x/two@1.0.0'])
  await sync('b', ['x/one@7.0.0'])
  await sync('a', [])
  assert.equal(await list('main'), ['x/one@7.0.0 b'])
  assert.equal(await list('main', true), ['x/one@7.0.0 b', 'x/two@1.0.0 a'])
  await sync('b', [])
  assert.equal(await list('main'), [])
  assert.equal(await list('main', true), ['x/one@1.0.0 a', 'x/two@1.0.0 a'])
})

testBothStores('tombstones are removed after thirty days, at the next sync that writes', async () => {
  await configure({ main: ['a'] })
  await sync('a', ['x/one@1.0.0', 'x/one@2.0.0', 'x/two'])
  await sync('a', ['x/one@2.0.0'], 1)
  await sync('a', ['x/one@2.0.0', 'x/new'], 30)
  assert.is((await list('main', true)).length, 4)
  await sync('a', ['x/one@2.0.0', 'x/newer'], 32)
  assert.equal(await list('main', true), ['x/new@1.0.0 a', 'x/newer@1.0.0 a', 'x/one@2.0.0 a'])
  const names = await database.selectFrom('entry').select('name').orderBy('name').execute()
  assert.equal(
    names.map(({ name }) => name),
    ['x/new', 'x/newer', 'x/one'],
  )
})

testBothStores('latest is the newest living version, or a deleted one if there is no other', async () => {
  await configure({ main: ['a'] })
  const latest = async (includeDeleted = false) =>
    (await reader.version({ ...servers, registry: 'main', name: 'x/one', version: 'latest', includeDeleted }))?.version
  await sync('a', ['x/one@1.0.0', 'x/one@1.10.0', 'x/one@1.9.0'])
  assert.is(await latest(), '1.10.0')
  await sync('a', ['x/one@1.0.0', 'x/one@1.9.0'], 1)
  assert.is(await latest(), '1.9.0')
  assert.is(await latest(true), '1.9.0')
  await sync('a', [], 2)
  assert.is(await latest(), undefined)
  assert.is(await latest(true), '1.10.0')
})

testBothStores('a sync writes only what differs', async () => {
  await configure({ main: ['a'] })
  const readTimes = async () =>
    Object.fromEntries(
      (await reader.list({ ...servers, registry: 'main', limit: 10, includeDeleted: true })).rows.map((row) => [
        row.name,
        row.updated_at,
      ]),
    )
  const revision = async () => {
    await refresh()
    return reader.revision('main')
  }
  await sync('a', ['x/one', 'x/two'])
  const before = { times: await readTimes(), revision: await revision() }

  await sync('a', ['x/two', 'x/one'], 1)
  assert.equal({ times: await readTimes(), revision: await revision() }, before)

  await sync('a', ['x/two', 'x/one', 'x/three'], 2)
  const after = await readTimes()
  assert.is(after['x/one'], before.times['x/one'])
  assert.is(after['x/three'], '2026-01-03T00:00:00.000Z')
  assert.is.not(await revision(), before.revision)
})

testBothStores('sources that are synced at the same time do not make each other fail', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  await configure({ all: names })
  for (let day = 0; day < 6; day++) {
    const entries = Array.from({ length: 20 }, (_, index) => `com.acme/tool-${(index * 7 + day) % 40}`)
    await Promise.all(names.map((name) => sync(name, entries, day, `day ${day}`)))
  }
  assert.is((await list('all')).length, 20)
})

testBothStores('only registries with the source get a new revision', async () => {
  await configure({ a: ['a'], b: ['b'] })
  const before = [await reader.revision('a'), await reader.revision('b')]
  await sync('a', ['x/one'])
  await refresh()
  assert.is.not(await reader.revision('a'), before[0])
  assert.is(await reader.revision('b'), before[1])
})

testBothStores('a check for changed entries also notices a recreated registry and changed claims', async () => {
  await configure({ main: ['a'], other: ['a'] })
  await sync('a', ['x/one'])
  let calls = 0
  const snapshot = await createSnapshot(reading, () => calls++)
  const lookFor = async (registries: Record<string, string[]>, claims = {}) => {
    await applySettings(database, settings({}, ['a']))
    const { sources, registries: fresh } = settings(registries)
    await applySettings(database, { sources, registries: fresh.map((one) => ({ ...one, claims })) })
    await snapshot.refresh('entries')
    const { rows: found } = await createReader(reading, snapshot).list({
      ...servers,
      registry: 'main',
      limit: 9,
      includeDeleted: true,
    })
    return found.map(({ name, revision }) => [name, revision === snapshot.registries().get('main')?.revision])
  }
  assert.equal(await lookFor({ other: ['a'], main: ['a'] }), [['x/one', true]])
  assert.is(calls, 0)
  assert.equal(await lookFor({ other: ['a'], main: ['a'] }, { team: 'a' }), [['x/one', true]])
  assert.equal(snapshot.registries().get('main')?.claims, { team: 'a' })
  assert.is(calls, 1)
})

testBothStores('after a failed check for settings the next check of any kind catches up', async () => {
  await configure({ main: ['a'], other: ['a'] })
  let broken = false
  const snapshot = await createSnapshot(
    reading.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        if (broken) throw new Error('the disk is broken')
        return result
      },
    }),
  )
  await applySettings(database, settings({ main: ['b', 'a'], other: ['a'] }))
  broken = true
  await snapshot.refresh().then(
    () => assert.unreachable(),
    () => {},
  )
  broken = false
  await snapshot.refresh('entries')
  assert.equal(snapshot.registries().get('main')?.sources, ['b', 'a'])
})

testBothStores('equal settings write nothing; removed ones take along everything that belongs to them', async () => {
  await configure({ one: ['a', 'b'], two: ['b'] })
  await sync('a', ['x/one'])
  await sync('b', ['x/two'])
  const revisions = async () => {
    await refresh()
    return [await reader.revision('one'), await reader.revision('two')]
  }
  const before = await revisions()
  await configure({ one: ['a', 'b'], two: ['b'] })
  assert.equal(await revisions(), before)

  await configure({ one: ['a'] }, ['a', 'b'])
  assert.equal(await list('one'), ['x/one@1.0.0 a'])
  assert.is(await reader.revision('two'), undefined)

  await configure({ one: ['b'] })
  assert.equal(await list('one'), ['x/two@1.0.0 b'])
  for (const table of ['entry', 'entry_version', 'listing'] as const)
    assert.is((await database.selectFrom(table).selectAll().execute()).length, 1, table)
})

const expectFailure = (work: Promise<unknown>) =>
  work.then(
    () => assert.unreachable('it was overtaken'),
    (error: Error) => assert.match(error.message, 'another pass over the source was faster'),
  )

testBothStores('a pass that was overtaken by another removes none of its entries', async () => {
  await configure({ main: ['a'] })
  await sync('a', ['x/old'])
  const { versions } = await parseCatalog(Buffer.from(registryFile(['x/one', 'x/two'].map((name) => server(name)))))
  const end = { settingsHash: '', cursor: 'new', complete: true, problems: '[]', now: new Date().toISOString() }
  // As with a replica that pauses for longer than its lease, or a source whose settings change.
  const [slow, slower] = [await stageSync(database, 'a'), await stageSync(database, 'a')]
  await slower.add(versions.slice(0, 1))
  await expectFailure(slow.add(versions))
  await slow.drop()
  const quick = await stageSync(database, 'a')
  await expectFailure(slower.add(versions.slice(1)))
  await quick.add(versions.slice(0, 1))
  await expectFailure(slower.finish(end))
  await slower.drop()
  await quick.add(versions.slice(1))
  await quick.finish(end)
  await expectFailure(slower.finish(end))
  await expectFailure(slow.finish(end))
  assert.equal(await list('main'), ['x/one@1.0.0 undefined', 'x/two@1.0.0 undefined'])
})

testBothStores('a pass without news does not remove entries that another has added since', async () => {
  await configure({ main: ['a'] })
  const { versions } = await parseCatalog(Buffer.from(registryFile([server('x/one')])))
  const end = { settingsHash: '', cursor: '', complete: true, problems: '[]', now: new Date().toISOString() }
  const slow = await stageSync(database, 'a')
  const quick = await stageSync(database, 'a')
  await quick.add(versions)
  await quick.finish(end)
  await slow.add([])
  await expectFailure(slow.finish(end))
  assert.equal(await list('main'), ['x/one@1.0.0 undefined'])
  await configure({ main: [] })
  assert.equal(await database.selectFrom('lease').selectAll().execute(), [])
})

testBothStores('a pass over a source that became managed removes nothing', async () => {
  await configure({ main: ['a'] })
  const staging = await stageSync(database, 'a')
  await applySettings(database, {
    sources: [{ name: 'a', config: { managed: {} }, claims: {} }],
    registries: [{ name: 'main', sources: ['a'], claims: {} }],
  })
  const own = publication('x/own', { source: 'a' })
  assert.equal(await database.transaction().execute((transaction) => publishAll(transaction, [own])), ['created'])
  const end = { settingsHash: '', cursor: '', complete: true, problems: '[]', now: new Date().toISOString() }
  await staging.finish(end).then(
    () => assert.unreachable('it is managed'),
    (error: Error) => assert.match(error.message, 'the source is published to'),
  )
  assert.equal(await list('main'), ['x/own@1.0.0 undefined'])
})

testBothStores('a sync of a removed source writes nothing', async () => {
  await configure({ main: ['a'] })
  try {
    await sync('gone', ['x/one'])
    assert.unreachable()
  } catch (error) {
    assert.match((error as Error).message, /no result/)
  }
})

testBothStores('a pass of many versions is written in parts, and so are removals', async () => {
  await configure({ main: ['a'] })
  // More names than one part has, and more versions of one name than a part has.
  const names = Array.from({ length: 1_500 }, (_, index) => `x/n${index + 1_000}`)
  const versions = Array.from({ length: 2_500 }, (_, index) => `m/one@1.0.${index}`)
  const one = { ...servers, registry: 'main', name: 'm/one', includeDeleted: false }
  const countLiving = () =>
    database
      .selectFrom('entry_version')
      .select('id')
      .where('gone_at', 'is', null)
      .execute()
      .then((rows) => rows.length)
  await sync('a', [...names, ...versions])
  assert.equal(await list('main').then((rows) => rows.length), 1_000)
  assert.is((await reader.version({ ...one, version: 'latest' }))?.version, '1.0.2499')
  assert.is(await countLiving(), 4_000)
  assert.equal(await database.selectFrom('staged_version').selectAll().execute(), [])

  // All but a few are removed; each part has some of both.
  const labels = ['x/n1000', 'x/n1999', 'x/n2000', 'x/n2499', 'm/one@1.0.7', 'm/one@1.0.2100']
  await sync('a', labels, 1)
  await refresh()
  assert.equal(
    (await list('main')).map((label) => label.split(' ')[0]),
    ['m/one@1.0.7', 'm/one@1.0.2100', 'x/n1000@1.0.0', 'x/n1999@1.0.0', 'x/n2000@1.0.0', 'x/n2499@1.0.0'],
  )
  assert.is((await reader.version({ ...one, version: 'latest' }))?.version, '1.0.2100')
  const { servers: known } = await database.selectFrom('source').select('servers').executeTakeFirstOrThrow()
  assert.is(known, 5)
  // A month later they are deleted for good, with the entries.
  await sync('a', labels.slice(1), 40)
  assert.is(
    await database
      .selectFrom('entry')
      .select('id')
      .execute()
      .then((rows) => rows.length),
    5,
  )
  assert.is(await countLiving(), 5)
})

testBothStores('the bytes of a version are counted, however it was added and changed', async () => {
  await configure({ main: ['a', 'own'] })
  await applySettings(database, {
    sources: [
      { name: 'a', config: { file: { path: 'a.json' } }, claims: {} },
      { name: 'own', config: { managed: {} }, claims: {} },
    ],
    registries: [{ name: 'main', sources: ['a', 'own'], claims: {} }],
  })
  const countRows = async () => {
    const { rows } = await sql<{ version: string; bytes: number; actual: number }>`
      select v.version, v.bytes, octet_length(d.text) + coalesce(octet_length(v.status_message), 0)
        + coalesce(octet_length(v.other_meta), 0) as actual
      from entry_version v join document d on d.id = v.document_id order by v.id`.execute(database)
    for (const { version, bytes, actual } of rows) assert.is(bytes, Number(actual), version)
    return rows.length
  }
  await sync('a', ['x/one', 'x/two'], 0, 'ä'.repeat(500))
  assert.is(await countRows(), 2)
  await sync('a', ['x/one', 'x/two'], 1, 'another text')
  assert.is(await countRows(), 2)
  const own = publication('x/own', { source: 'own', document: JSON.stringify({ text: 'ö'.repeat(100) }) })
  await database.transaction().execute((transaction) => publishAll(transaction, [own]))
  assert.is(await countRows(), 3)
  const change = { source: 'own', type: 'server', name: 'x/own', version: '1.0.0', expect: {} } as const
  for (const message of ['é'.repeat(20_000), 'short', null]) {
    const at = new Date().toISOString()
    const deprecated = { ...change, at, status: 'deprecated', message } as const
    assert.is(await database.transaction().execute((its) => setStatus(its, deprecated)), 'done')
    assert.is(await countRows(), 3)
  }
})

test.run()
