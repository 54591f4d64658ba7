import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Store } from '../../../../dataplane/registry/sync/open-store.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'
import { endStores, onBothStores } from '../../../support/registry/store.ts'

test.after(endStores)

const SOURCES = 14
/** Returns the names of a source: only the first has the ones that come first; every other name is in several sources. */
function buildNames(source: number): string[] {
  const numbers = Array.from({ length: 60 }, (_, number) => number)
  const own = numbers.filter((number) => (source === 0 ? number < 40 : number >= 40 || number % SOURCES === source))
  return own
    .filter((number) => source === 0 || number % 3 === source % 3)
    .map((number) => `x/n${String(number).padStart(2, '0')}`)
}
const buildVersion = (source: number) => `1.0.${source}`

async function fill(store: Store): Promise<ReadonlyMap<number, number>> {
  const sources = Array.from({ length: SOURCES }, (_, source) => ({
    source,
    name: `source-${source}`,
    text: registryFile(buildNames(source).map((name) => server(name, buildVersion(source)))),
  }))
  await store.applySettings({
    sources: sources.map(({ source, name, text }) => ({
      name,
      config: { file: { data: text } },
      claims: { team: `t${source}` },
    })),
    registries: [{ name: 'main', sources: sources.map(({ name }) => name), claims: {} }],
  })
  const call = { full: false, signal: new AbortController().signal }
  for (const { name, text } of sources)
    await store.syncSource({ name, location: { kind: 'inline', text }, maxBytes: 2 ** 30 }, call)
  const { sets } = store.reader.claimsSets()
  return new Map(
    sets.flatMap(({ id, claims }) =>
      typeof claims['team'] === 'string' ? [[Number(claims['team'].slice(1)), id]] : [],
    ),
  )
}

onBothStores('each caller pages through the visible names, whichever other sources have them', async ({ store }) => {
  const setOf = await fill(store)
  const all = Array.from({ length: SOURCES }, (_, source) => source)
  for (const seen of [all, all.slice(1), all.slice(5), all.slice(0, 8), all.slice(6, 9), [0], [13], []])
    for (const limit of [3, 7, 100]) {
      const expected = new Map<string, string>()
      for (const source of seen)
        for (const name of buildNames(source)) if (!expected.has(name)) expected.set(name, buildVersion(source))
      const visible = seen.map((source) => setOf.get(source) as number)
      const query = { registry: 'main', type: 'server', visible, limit, includeDeleted: false } as const
      const met: [string, string][] = []
      for (let more = true; more; ) {
        const [name, version] = met.at(-1) ?? []
        const after = name === undefined || version === undefined ? undefined : { name, version }
        const { rows } = await store.reader.list({ ...query, after })
        met.push(...rows.map((row): [string, string] => [row.name, row.version]))
        more = rows.length === limit
      }
      assert.equal(met, [...expected].sort(), `${seen}, by ${limit}`)
    }
})

test.run()
