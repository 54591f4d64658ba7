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
const special = ['m.example/c-sharp', 'z.example/zq', 'z.example/zz']
const text = registryFile([
  ...[...late, ...early].map((name) => server(name)),
  ...special.map((name) => server(name, '1.0.0', { title: name.endsWith('sharp') ? 'Tools for C# and p9-x' : 'Last' })),
])

async function fill(store: Store): Promise<void> {
  await store.applySettings({
    sources: [{ name: 'all', config: { file: { data: text } }, claims: {} }],
    registries: [{ name: 'main', sources: ['all'], claims: {} }],
  })
  const call = { full: false, signal: new AbortController().signal }
  await store.syncSource({ name: 'all', place: { kind: 'inline', text } }, call)
}

async function searchAll({ reader }: Store, search: string): Promise<string[]> {
  const query = { registry: 'main', type: 'server', visible: 'all', limit: 100, includeDeleted: false, search } as const
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
    'about z.example': [...late, ...special.slice(1)],
    zq: ['z.example/zq'],
    zz: ['z.example/zz'],
    'c#': ['m.example/c-sharp'],
    'p9-': ['m.example/c-sharp'],
    '-x': ['m.example/c-sharp'],
    '%': [],
    _: [],
    qx: [],
  }))
    assert.equal(await searchAll(its.store, term), names, term)
})

test.run()
