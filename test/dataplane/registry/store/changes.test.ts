import type { Worker } from 'node:worker_threads'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Visible } from '../../../../dataplane/registry/authz/access.ts'
import type { Store } from '../../../../dataplane/registry/sync/open-store.ts'
import { eventually } from '../../../support/eventually.ts'
import { endStores, manage, onBothStores, publication } from '../../../support/registry/store.ts'

test.after(endStores)

const a = { team: 'a' }
const b = { team: 'b' }

async function list({ reader }: Store, visible: Visible = 'all', rest: object = {}): Promise<string[]> {
  const query = { registry: 'main', type: 'server', visible, limit: 1000, includeDeleted: false } as const
  return (await reader.list({ ...query, ...rest })).rows.map(({ name, version }) => `${name}@${version}`)
}

/** Returns the numbers of these sets that a caller with one of them sees. */
function seeing({ reader }: Store, ...claims: readonly Record<string, string>[]): number[] {
  const texts = claims.map((set) => JSON.stringify(set))
  return reader
    .claimsSets()
    .sets.filter((set) => texts.includes(JSON.stringify(set.claims)))
    .map(({ id }) => id)
}

onBothStores('each outcome of publishing is seen at once', async ({ store }) => {
  await manage(store)
  const { publish } = store.writer
  assert.is(await publish(publication('x/one', { claims: a })), 'created')
  assert.equal(await list(store), ['x/one@1.0.0'])
  assert.is(await publish(publication('x/one', { claims: a })), 'unchanged')
  assert.is(await publish(publication('x/one', { claims: a, document: '{}' })), 'version_exists')
  assert.is(await publish(publication('x/one@2.0.0', { claims: b })), 'claims_mismatch')
  assert.is(await publish(publication('x/one@2.0.0', { claims: a })), 'created')
  assert.is(await publish(publication('x/one', { source: 'none' })), 'no_source')
  const latest = { registry: 'main', type: 'server', visible: 'all', name: 'x/one', version: 'latest' } as const
  assert.is((await store.reader.version({ ...latest, includeDeleted: false }))?.version, '2.0.0')
})

onBothStores('a document equals itself in any order of members, and not with another number', async ({ store }) => {
  await manage(store)
  const { publish } = store.writer
  const document = (text: string) => publication('x/one', { document: text })
  assert.is(await publish(document('{"name":"x/one","packages":[{"a":1.0,"b":{"c":[1,2]}}]}')), 'created')
  assert.is(await publish(document('{"packages":[{"b":{"c":[1,2]},"a":1.0}],"name":"x/one"}')), 'unchanged')
  assert.is(await publish(document('{"packages":[{"b":{"c":[2,1]},"a":1.0}],"name":"x/one"}')), 'version_exists')
  assert.is(await publish(document('{"packages":[{"b":{"c":[1,2]},"a":1.5}],"name":"x/one"}')), 'version_exists')
})

onBothStores('a change to the same value writes nothing', async ({ store }) => {
  await manage(store)
  const { publish, setClaims, setStatus, deleteVersion } = store.writer
  await publish(publication('x/one', { claims: { p: 'q', ...a } }))
  const entry = { source: 'own', type: 'server', name: 'x/one', expect: { p: 'q', ...a } } as const
  const change = (at: string) => ({ ...entry, version: '1.0.0', at: `2030-01-01T00:00:0${at}.000Z` })
  const readAll = async () => {
    const query = { registry: 'main', type: 'server', visible: 'all', name: 'x/one', includeDeleted: false } as const
    return [await store.reader.revision('main'), await store.reader.version({ ...query, version: 'latest' })]
  }
  const deprecated = { status: 'deprecated', message: 'Old.' } as const
  assert.is(await setStatus({ ...change('1'), ...deprecated }), 'done')
  const before = await readAll()
  assert.is(await setStatus({ ...change('2'), ...deprecated }), 'done')
  assert.is(await setClaims({ ...change('3'), claims: { ...a, p: 'q' } }), 'done')
  assert.equal(await readAll(), before)
  assert.is(await setStatus({ ...change('4'), ...deprecated, message: null }), 'done')
  assert.is.not((await readAll())[0], before[0])
  assert.is(await deleteVersion(change('5')), 'done')
  assert.is(await deleteVersion(change('6')), 'not_found')
  assert.is(await setStatus({ ...change('7'), ...deprecated }), 'not_found')
})

onBothStores('concurrent publications: the newest is the latest, and a deleted entry comes back', async ({ store }) => {
  await manage(store)
  const { publish, deleteVersion } = store.writer
  const latest = async (name: string) => {
    const query = { registry: 'main', type: 'server', visible: seeing(store, b), includeDeleted: false } as const
    return (await store.reader.version({ ...query, name, version: 'latest' }))?.version
  }
  await publish(publication('x/gone', { claims: a }))
  const change = { source: 'own', type: 'server', name: 'x/gone', expect: a, at: new Date().toISOString() } as const
  await deleteVersion({ ...change, version: '1.0.0' })
  await publish(publication('x/old@2.0.0', { claims: b }))

  const labels = ['x/new@1.9.0', 'x/new@1.10.0', 'x/new@1.2.0', 'x/gone@1.1.0', 'x/old@1.0.0', 'x/old@2.0.1', 'x/last']
  assert.equal(
    await Promise.all(labels.map((label) => publish(publication(label, { claims: b })))),
    labels.map(() => 'created'),
  )
  assert.equal(await list(store, seeing(store, a)), [])
  assert.is(await latest('x/new'), '1.10.0')
  assert.is(await latest('x/gone'), '1.1.0')
  assert.is(await latest('x/old'), '2.0.1')
  assert.is(await latest('x/last'), '1.0.0')
  assert.is((await list(store, seeing(store, b))).length, labels.length + 1)
})

onBothStores('a caller sees each name from the first source with a visible entry', async ({ store }) => {
  await manage(store, ['second', 'third'])
  const { publish } = store.writer
  for (const [source, claims] of [
    ['own', a],
    ['second', b],
    ['third', {}],
  ] as const) {
    const mark = (label: string) => publication(label, { source, claims })
    assert.is(await publish(mark(`x/all@${source.length}.0.0`)), 'created')
    assert.is(await publish(mark(`x/only-${source}`)), 'created')
  }
  const [own, second, third] = ['x/all@3.0.0', 'x/all@6.0.0', 'x/all@5.0.0']
  assert.equal(await list(store), [own, 'x/only-own@1.0.0', 'x/only-second@1.0.0', 'x/only-third@1.0.0'])
  assert.equal(await list(store, seeing(store, a)), [own, 'x/only-own@1.0.0'])
  assert.equal(await list(store, seeing(store, b)), [second, 'x/only-second@1.0.0'])
  assert.equal(await list(store, seeing(store, {})), [third, 'x/only-third@1.0.0'])
  assert.equal(await list(store, seeing(store, b, {})), [second, 'x/only-second@1.0.0', 'x/only-third@1.0.0'])
  assert.equal(await list(store, []), [])

  for (const visible of [seeing(store, a), seeing(store, b), seeing(store, b, {}), 'all'] as const) {
    const all = await list(store, visible)
    for (const search of ['only', 'x/', 'l', 'about x/only-s'])
      assert.equal(
        await list(store, visible, { search }),
        all.filter((label) => `about ${label}`.replace(/@.*/, '').includes(search)),
        `${visible} ${search}`,
      )
    const query = { registry: 'main', type: 'server', visible, name: 'x/all', includeDeleted: false } as const
    assert.equal(
      (await store.reader.versions(query)).rows.map(({ version }) => `x/all@${version}`),
      all.slice(0, 1),
    )
  }
})

onBothStores('changed claims apply at once, and only if the old ones are as expected', async ({ store }) => {
  await manage(store)
  await store.writer.publish(publication('x/one', { claims: a }))
  const change = { source: 'own', type: 'server', name: 'x/one', at: new Date().toISOString() } as const
  assert.is(await store.writer.setClaims({ ...change, expect: b, claims: b }), 'changed')
  assert.is(await store.writer.setClaims({ ...change, expect: a, claims: b }), 'done')
  assert.is(await store.writer.setClaims({ ...change, name: 'x/none', expect: {}, claims: b }), 'not_found')
  assert.equal(await list(store, seeing(store, a)), [])
  assert.equal(await list(store, seeing(store, b)), ['x/one@1.0.0'])
  assert.equal((await store.reader.entriesNamed('server', 'x/one'))[0]?.claims, b)
})

onBothStores('deleted versions leave tombstones, and may be published again with other claims', async ({ store }) => {
  await manage(store)
  const { publish, deleteVersion, setStatus } = store.writer
  await publish(publication('x/one@1.0.0', { claims: a }))
  await publish(publication('x/one@2.0.0', { claims: a }))
  const since = new Date(Date.now() + 1_000).toISOString()
  const change = {
    source: 'own',
    type: 'server',
    name: 'x/one',
    expect: a,
    at: new Date(Date.now() + 2_000).toISOString(),
  } as const
  assert.is(await setStatus({ ...change, version: '1.0.0', status: 'deprecated', message: 'old' }), 'done')
  assert.is(await deleteVersion({ ...change, version: '2.0.0' }), 'done')
  assert.is(await deleteVersion({ ...change, version: '2.0.0' }), 'not_found')
  assert.equal(await list(store), ['x/one@1.0.0'])
  assert.equal(await list(store, 'all', { includeDeleted: true, updatedSince: since }), ['x/one@1.0.0', 'x/one@2.0.0'])
  assert.is(await deleteVersion({ ...change, version: '1.0.0' }), 'done')
  assert.equal(await store.reader.entriesOfSource('own', { limit: 10 }), { entries: [], more: false })
  assert.is(await publish(publication('x/one@2.0.0', { claims: b, document: '{"again":1}' })), 'created')
  const {
    rows: [row],
  } = await store.reader.list({
    registry: 'main',
    type: 'server',
    visible: seeing(store, b),
    limit: 2,
    includeDeleted: false,
  })
  assert.equal([row?.version, row?.document, row?.status], ['2.0.0', '{"again":1}', 'active'])
})

onBothStores('sources and registries of the API exist beside the configured ones', async ({ store, again }) => {
  await manage(store)
  const at = new Date().toISOString()
  const source = { name: 'new', config: { managed: {} }, claims: a, at }
  const { putSource, putRegistry, removeSource, removeRegistry, publish } = store.writer
  assert.is(await putSource({ ...source, create: false }), 'not_found')
  assert.is(await putSource({ ...source, create: true }), 'done')
  assert.is(await putSource({ ...source, create: true }), 'taken')
  assert.is(await putSource({ ...source, name: 'own', create: false }), 'taken')
  const registry = { name: 'fresh', sources: ['new', 'own'], claims: b, at }
  assert.is(await putRegistry({ ...registry, sources: ['none'], create: true }), 'no_source')
  assert.is(await putRegistry({ ...registry, create: true }), 'done')
  await publish(publication('x/one', { source: 'new' }))
  assert.is(await removeSource({ name: 'new' }), 'in_use')
  assert.is(await removeSource({ name: 'own' }), 'not_found')

  await manage(store)
  const other = await again()
  const record = await other.reader.registry('fresh')
  assert.equal([record?.sources, record?.claims, record?.origin], [['new', 'own'], b, 'api'])
  assert.equal(
    (await other.reader.entriesOfRegistry('fresh', { limit: 10 })).entries.map(
      (entry) => `${entry.source} ${entry.name}`,
    ),
    ['new x/one'],
  )
  assert.is(await removeRegistry({ name: 'fresh' }), 'done')
  assert.is(await removeRegistry({ name: 'main' }), 'not_found')
  assert.is(await removeSource({ name: 'new' }), 'done')
  assert.is(await store.reader.source('new'), undefined)
})

onBothStores('a change is written only to the state that it was checked against', async ({ store }) => {
  await manage(store)
  const at = new Date().toISOString()
  const source = { name: 'new', config: { managed: {} }, at }
  const { putSource, putRegistry, removeSource, removeRegistry, publish } = store.writer
  assert.is(await putSource({ ...source, claims: a, create: true }), 'done')
  const registry = { name: 'fresh', sources: ['new'], claims: a, at }
  assert.is(await putRegistry({ ...registry, create: true, expectSources: [b] }), 'changed')
  assert.is(await putRegistry({ ...registry, create: true, expectSources: [a] }), 'done')

  assert.is(await putSource({ ...source, claims: {}, create: false, expect: b }), 'changed')
  assert.is(await putSource({ ...source, config: { file: { data: '{}' } }, claims: a, create: false }), 'changed')
  assert.is(await putRegistry({ ...registry, claims: {}, create: false, expect: b }), 'changed')
  assert.is(await removeRegistry({ name: 'fresh', expect: b }), 'changed')
  assert.is(await publish(publication('x/one', { source: 'new', expectSource: b })), 'source_changed')
  assert.is(await publish(publication('x/one', { source: 'new', needsClaims: true })), 'claims_required')
  assert.equal((await store.reader.source('new'))?.claims, a)
  assert.equal((await store.reader.registry('fresh'))?.claims, a)
  assert.equal(await store.reader.entriesOfSource('new', { limit: 1 }), { entries: [], more: false })

  assert.is(await publish(publication('x/one', { source: 'new', expectSource: a })), 'created')
  assert.is(await putSource({ ...source, claims: b, create: false, expect: a }), 'done')
  assert.is(await removeRegistry({ name: 'fresh', expect: a }), 'done')
  assert.is(await removeSource({ name: 'new', expect: a }), 'changed')
  assert.is(await removeSource({ name: 'new', expect: b }), 'done')
})

onBothStores('of eight concurrent writers none is lost or refused', async ({ kind, store, again }) => {
  await manage(store)
  // Two replicas write to one database; a file has one writer.
  const stores = kind === 'PostgreSQL' ? [store, await again()] : [store]
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    const { publish } = (stores[writer % stores.length] as Store).writer
    for (let index = 0; index < 15; index++) {
      // All writers publish each name, in versions of their own and in a common one.
      assert.is(await publish(publication(`x/n${index}@1.${writer}.0`, { claims: a })), 'created')
      assert.ok(['created', 'unchanged'].includes(await publish(publication(`x/n${index}@9.0.0`, { claims: a }))))
    }
  })
  await Promise.all(writers)
  for (const one of stores) {
    await eventually('all is seen', async () => (await list(one)).length === 135)
    assert.is(new Set(await list(one, seeing(one, a))).size, 135)
  }
})

onBothStores(
  'a write before the death of the writing thread is known, although it was not reported',
  async ({ store, again }) => {
    await manage(store)
    const threads: Worker[] = []
    const collect = (thread: Worker) => threads.push(thread)
    process.on('worker', collect)
    const other = await again()
    process.off('worker', collect)
    const [thread] = threads as [Worker]
    // Its messages are ignored, as if it had died after its last commit.
    thread.removeAllListeners('message')
    const lost = other.writer.publish(publication('x/lost')).catch((error: Error) => error)
    const before = await other.reader.revision('main')
    await eventually('it is written', async () => (await list(store)).length === 1)
    await thread.terminate()
    assert.instance(await lost, Error)
    assert.is.not(await other.reader.revision('main'), before)
  },
  { kinds: ['SQLite'] },
)

onBothStores(
  'a database that others write to is followed within a second',
  async ({ store, again }) => {
    await manage(store)
    const other = await again()
    const revision = await other.reader.revision('main')
    await store.writer.publish(publication('x/one', { claims: b }))
    await eventually('the other replica shows it', async () => (await other.reader.revision('main')) !== revision)
    assert.equal(await list(other, seeing(other, b)), ['x/one@1.0.0'])
  },
  { kinds: ['PostgreSQL'] },
)

test.run()
