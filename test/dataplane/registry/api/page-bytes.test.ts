import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Position } from '../../../../dataplane/registry/catalog/cursor.ts'
import type { VersionPage } from '../../../../dataplane/registry/store/read/version-page.ts'
import type { Store } from '../../../../dataplane/registry/sync/open-store.ts'
import { type List, labels, registryFile, server, startRegistry } from '../../../support/registry/registry.ts'
import { endStores, onBothStores } from '../../../support/registry/store.ts'

test.after(endStores)

const MIB = 1024 * 1024
const NAMES = Array.from({ length: 12 }, (_, index) => `x/n${index + 10}`)
const VERSIONS = Array.from({ length: 12 }, (_, index) => `${20 - index}.0.0`)
/** Documents of 0.9 MiB: twelve names, and twelve versions of one; beside them small ones. */
const filler = { filler: 'x'.repeat(0.9 * MIB) } as object
const text = registryFile([
  ...NAMES.map((name) => server(name, '1.0.0', filler)),
  ...VERSIONS.map((version) => server('y/all', version, filler)),
  server('z/small'),
])

async function fill({ applySettings, syncSource }: Store): Promise<void> {
  const sources = [{ name: 'a', config: { file: { data: '{}' } }, claims: {} }]
  await applySettings({ sources, registries: [{ name: 'main', sources: ['a'], claims: {} }] })
  const call = { full: false, signal: new AbortController().signal }
  await syncSource({ name: 'a', location: { kind: 'inline', text }, maxBytes: 2 ** 30 }, call)
}

/** Reads all pages in order; each must be within its bound and as large as that allows. */
async function walk(read: (after: Position | undefined) => Promise<VersionPage>): Promise<string[][]> {
  const pages: string[][] = []
  let after: Position | undefined
  for (let more = true; more; ) {
    const page = await read(after)
    const bytes = page.rows.reduce((sum, { document }) => sum + document.length, 0)
    assert.ok(bytes < 8 * MIB, `${bytes} bytes`)
    pages.push(page.rows.map(({ name, version }) => `${name}@${version}`))
    after = page.rows.at(-1)
    more = page.more
  }
  return pages
}

onBothStores('a page has at most 8 MiB, and the next one continues after it', async ({ store }) => {
  await fill(store)
  const scope = { registry: 'main', type: 'server', visible: 'all', includeDeleted: false } as const
  const list = await walk((after) => store.reader.list({ ...scope, limit: 100, after }))
  assert.equal(
    list.map(({ length }) => length),
    [8, 8, 9],
  )
  assert.equal(list.flat(), [
    ...NAMES.map((name) => `${name}@1.0.0`),
    ...VERSIONS.toReversed().map((version) => `y/all@${version}`),
    'z/small@1.0.0',
  ])
  const versions = await walk((after) => store.reader.versions({ ...scope, name: 'y/all', after }))
  assert.equal(
    versions.map(({ length }) => length),
    [8, 4],
  )
  assert.equal(
    versions.flat(),
    VERSIONS.map((version) => `y/all@${version}`),
  )
  const one = await store.reader.version({ ...scope, name: 'y/all', version: 'latest' })
  assert.equal(
    [one?.version, one?.document.length],
    ['20.0.0', JSON.stringify(server('y/all', '20.0.0', filler)).length],
  )
})

test('over HTTP nextCursor is present while there are more, in lists and in versions of one name', async () => {
  const registry = await startRegistry({ house: text })
  try {
    for (const [path, all] of [
      ['/servers?limit=100', 25],
      ['/servers/y%2Fall/versions?', 12],
    ] as const) {
      const met: string[] = []
      let cursor: string | undefined = ''
      for (; cursor !== undefined; ) {
        const page: List = await registry.list(`${path}&cursor=${cursor}`)
        assert.ok(JSON.stringify(page).length < 8 * MIB, path)
        assert.is(page.metadata.count, page.servers.length)
        met.push(...labels(page))
        cursor = page.metadata.nextCursor
      }
      assert.is(new Set(met).size, all, path)
    }
    const wrong = await registry.get('/servers/y%2Fall/versions?cursor=abc')
    assert.is(wrong.status, 400)
  } finally {
    await registry.close()
  }
})

test.run()
