import { setImmediate } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Store } from '../../../../dataplane/registry/sync/open-store.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'
import { endStores, manage, onBothStores, publication, type TestStore } from '../../../support/registry/store.ts'

test.after(endStores)

const numberNames = (from: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${from}${String(index).padStart(4, '0')}`)

/** Far more than a search scans one by one, all behind the first ones by name. */
const late = numberNames('z.example/latecomer-', 1_700)
const early = numberNames('a.example/early-', 400)
const special = ['m.example/c-sharp', 'm.example/caron', 'm.example/words', 'z.example/zq', 'z.example/zz']
const titles: Readonly<Record<string, string>> = {
  'm.example/c-sharp': 'Tools for C# and p9-x',
  'm.example/words': 'First, second-third fourth',
  // Two letters that remain two when folded once, and become one when folded again.
  'm.example/caron': 'The J\u030cosh tools',
}
const text = registryFile([
  ...[...late, ...early].map((name) => server(name)),
  ...special.map((name) => server(name, '1.0.0', { title: titles[name] ?? 'Last' })),
])

async function fill(store: Store): Promise<void> {
  await store.applySettings({
    sources: [{ name: 'all', config: { file: { data: text } }, claims: {} }],
    registries: [{ name: 'main', sources: ['all'], claims: {} }],
  })
  const call = { full: false, signal: new AbortController().signal }
  await store.syncSource({ name: 'all', location: { kind: 'inline', text }, maxBytes: 2 ** 30 }, call)
}

async function searchAll({ reader }: Store, search: string, limit: number): Promise<string[]> {
  const query = { registry: 'main', type: 'server', visible: 'all', limit, includeDeleted: false, search } as const
  const found: string[] = []
  for (;;) {
    const last = found.at(-1)
    const after = last === undefined ? undefined : { name: last, version: '1.0.0' }
    const { rows } = await reader.list({ ...query, after })
    found.push(...rows.map(({ name }) => name))
    if (rows.length < query.limit) return found
  }
}

onBothStores('a search finds matches far down the list: many, few, and terms without an index', async (its) => {
  await fill(its.store)
  for (const [term, names] of Object.entries({
    LateComer: late,
    'early-00': early.slice(0, 100),
    'latecomer-0099': [late[99]],
    'about z.example': [...late, ...special.slice(3)],
    zq: ['z.example/zq'],
    zz: ['z.example/zz'],
    'c#': ['m.example/c-sharp'],
    'the J\u030cosh TOOLS': ['m.example/caron'],
    'p9-': ['m.example/c-sharp'],
    '-x': ['m.example/c-sharp'],
    'first, second': ['m.example/words'],
    'first, second-third fourth': ['m.example/words'],
    'second third': [],
    'first, third fourth': [],
    'first, second-thirds fourth': [],
    '%': [],
    _: [],
    qx: [],
  }))
    for (const limit of [20, 100]) assert.equal(await searchAll(its.store, term, limit), names, `${term}, by ${limit}`)
})

async function findsOneState({ store }: TestStore): Promise<void> {
  await manage(store)
  const query = { registry: 'main', type: 'server', visible: 'all', limit: 1_000, includeDeleted: false } as const
  /** Answers by revision: all answers of one revision must be the same. */
  const found = new Map<string, string>()
  let done = false

  async function read(): Promise<void> {
    while (!done) {
      // SQLite answers synchronously, so the loop must yield to let others run.
      await setImmediate()
      const { rows } = await store.reader.list({ ...query, search: 'rarely-seen' })
      const [revision, ...others] = new Set(rows.map((row) => row.revision))
      assert.is(others.length, 0)
      if (revision === undefined) continue
      const names = rows.map(({ name }) => name).join(' ')
      assert.is(names, found.get(revision) ?? names)
      found.set(revision, names)
    }
  }

  const readers = [read(), read()]
  for (const name of numberNames('z.example/rarely-seen-', 300)) await store.writer.publish(publication(name))
  done = true
  await Promise.all(readers)
  assert.ok(found.size > 10, `${found.size} revisions were seen`)
}

onBothStores('a search during publications shows one state', findsOneState, { fresh: true })

test.run()
