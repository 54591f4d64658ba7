import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Store } from '../../../dataplane/registry/store/index.ts'
import { registryFile, server } from '../../support/registry.ts'
import { endStores, onBothStores } from '../../support/store.ts'

test.after(endStores)

const numbered = (from: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${from}${String(index).padStart(4, '0')}`)

/** Far more than are looked at one by one, all behind what comes first by name. */
const late = numbered('z.example/latecomer-', 1_700)
const early = numbered('a.example/early-', 400)
const special = ['m.example/c-sharp', 'm.example/words', 'z.example/zq', 'z.example/zz']
const titles: Readonly<Record<string, string>> = {
  'm.example/c-sharp': 'Tools for C# and p9-x',
  'm.example/words': 'First, second-third fourth',
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
  await store.syncSource({ name: 'all', place: { kind: 'inline', text } }, call)
}

async function searchAll({ reader }: Store, search: string, limit: number): Promise<string[]> {
  const query = { registry: 'main', type: 'server', visible: 'all', limit, includeDeleted: false, search } as const
  const found: string[] = []
  for (;;) {
    const last = found.at(-1)
    const after = last === undefined ? undefined : { name: last, version: '1.0.0' }
    const rows = await reader.list({ ...query, after })
    found.push(...rows.map(({ name }) => name))
    if (rows.length < query.limit) return found
  }
}

onBothStores('a search finds what lies far behind: many, few, and terms that no index has', async (its) => {
  await fill(its.store)
  for (const [term, names] of Object.entries({
    LateComer: late,
    'early-00': early.slice(0, 100),
    'latecomer-0099': [late[99]],
    'about z.example': [...late, ...special.slice(2)],
    zq: ['z.example/zq'],
    zz: ['z.example/zz'],
    'c#': ['m.example/c-sharp'],
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

test.run()
