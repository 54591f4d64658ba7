import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  labels,
  official,
  registryFile,
  server,
  startRegistry,
  type TestRegistry,
} from '../../../support/registry/registry.ts'

const upstream = JSON.stringify({
  servers: [
    {
      server: server('io.upstream/mirrored', '1.0.0'),
      _meta: {
        'io.modelcontextprotocol.registry/official': {
          status: 'deprecated',
          statusMessage: 'Use another.',
          statusChangedAt: '2025-03-01T00:00:00Z',
          publishedAt: '2025-01-01T00:00:00Z',
          updatedAt: '2025-03-01T00:00:00Z',
        },
        'com.example/curation': { tier: 1 },
      },
    },
    {
      server: server('io.upstream/withdrawn', '1.0.0'),
      _meta: { 'io.modelcontextprotocol.registry/official': { status: 'deleted' } },
    },
    { server: server('com.example/weather', '9.0.0') },
  ],
})

let registry: TestRegistry

test.before(async () => {
  registry = await startRegistry({
    own: registryFile([
      server('com.example/weather', '1.2.0', { title: 'Forecasts', _meta: { 'com.example/x': { n: 1 } } }),
      server('com.example/weather', '1.10.0'),
      server('com.example/weather', '2.0.0-beta.1'),
      server('com.example/weather', 'nightly'),
      server('com.example/Files_1.x', 'v2+a/b c', { description: '100% of_your files\\folders — ÜBER ﬁne' }),
    ]),
    upstream,
  })
})
test.after(() => registry.close())

const WEATHER = '/servers/com.example%2Fweather'

test('the list has every version, by name and then oldest first, with one source for each name', async () => {
  const list = await registry.list('/servers')
  assert.equal(labels(list), [
    'com.example/Files_1.x@v2+a/b c',
    'com.example/weather@nightly',
    'com.example/weather@1.2.0',
    'com.example/weather@1.10.0',
    'com.example/weather@2.0.0-beta.1',
    'io.upstream/mirrored@1.0.0',
  ])
  assert.equal(list.metadata, { count: 6 })
})

test('an entry has its document unchanged and the official block filled', async () => {
  const { server: document, _meta } = await registry.one(`${WEATHER}/versions/1.2.0`)
  assert.equal(
    document,
    server('com.example/weather', '1.2.0', { title: 'Forecasts', _meta: { 'com.example/x': { n: 1 } } }),
  )
  const block = _meta['io.modelcontextprotocol.registry/official']
  assert.equal(Object.keys(block).sort(), ['isLatest', 'publishedAt', 'status', 'statusChangedAt', 'updatedAt'])
  assert.is(block.status, 'active')
  assert.is(block.isLatest, false)
  for (const time of [block.publishedAt, block.updatedAt, block.statusChangedAt])
    assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000, time)
})

test('an upstream’s status, time of publication and further blocks are kept; updatedAt is ours', async () => {
  const mirrored = await registry.one('/servers/io.upstream%2Fmirrored/versions/latest')
  const { updatedAt, ...rest } = official(mirrored)
  assert.equal(rest, {
    status: 'deprecated',
    statusMessage: 'Use another.',
    statusChangedAt: '2025-03-01T00:00:00.000Z',
    publishedAt: '2025-01-01T00:00:00.000Z',
    isLatest: true,
  })
  assert.ok(Date.parse(updatedAt) > Date.parse('2026-01-01'))
  assert.equal(mirrored._meta['com.example/curation'], { tier: 1 })
})

test('versions are listed newest first, and latest is by semantic version', async () => {
  const list = await registry.list(`${WEATHER}/versions`)
  assert.equal(labels(list), [
    'com.example/weather@2.0.0-beta.1',
    'com.example/weather@1.10.0',
    'com.example/weather@1.2.0',
    'com.example/weather@nightly',
  ])
  assert.equal(
    list.servers.map((entry) => official(entry).isLatest),
    [true, false, false, false],
  )
  assert.equal(list.metadata, { count: 4 })
  assert.is((await registry.one(`${WEATHER}/versions/latest`)).server.version, '2.0.0-beta.1')
})

test('a version with every awkward character, percent-encoded', async () => {
  const path = `/servers/${encodeURIComponent('com.example/Files_1.x')}/versions/${encodeURIComponent('v2+a/b c')}`
  assert.is((await registry.one(path)).server.version, 'v2+a/b c')
})

test('a name with an unencoded slash is found too', async () => {
  for (const path of ['/servers/com.example/weather/versions', '/servers/com.example/weather/versions/latest'])
    assert.is((await registry.get(path)).status, 200, path)
})

const searches: Record<string, string[]> = {
  'search=WEATHER': ['nightly', '1.2.0', '1.10.0', '2.0.0-beta.1'],
  'search=forecast': ['1.2.0'],
  'search=about%20com.example': ['nightly', '1.2.0', '1.10.0', '2.0.0-beta.1'],
  'search=%25': ['v2+a/b c'],
  'search=of_your': ['v2+a/b c'],
  'search=ofXyour': [],
  'search=files%5Cfolders': ['v2+a/b c'],
  'search=%C3%BCber%20fine': ['v2+a/b c'],
  'search=nothing': [],
  'version=latest': ['v2+a/b c', '2.0.0-beta.1', '1.0.0'],
  'version=1.10.0': ['1.10.0'],
  'version=1.10.0&search=forecast': [],
  'version=0.0.0': [],
  'updated_since=2100-01-01T00:00:00Z': [],
  'updated_since=9999-12-31T23:59:59-23:59': [],
  'include_deleted=true&version=latest': ['v2+a/b c', '2.0.0-beta.1', '1.0.0', '1.0.0'],
  'updated_since=2020-01-01t00:00:00%2B02:00&version=1.0.0': ['1.0.0', '1.0.0'],
  'updated_since=0000-01-01T00:00:00%2B01:00&version=1.0.0': ['1.0.0', '1.0.0'],
  'search=&version=&cursor=&limit=&updated_since=&include_deleted=&unknown=1': [
    'v2+a/b c',
    'nightly',
    '1.2.0',
    '1.10.0',
    '2.0.0-beta.1',
    '1.0.0',
  ],
}
for (const [query, versions] of Object.entries(searches))
  test(`list: ${query}`, async () => {
    const list = await registry.list(`/servers?${query}`)
    assert.equal(
      list.servers.map((entry) => entry.server.version),
      versions,
    )
    assert.is(list.metadata.count, versions.length)
  })

test('deleted versions of the upstream are shown on request', async () => {
  const path = '/servers/io.upstream%2Fwithdrawn/versions'
  for (const question of [path, `${path}/1.0.0`, `${path}/latest`]) {
    assert.is((await registry.get(question)).status, 404, question)
    assert.is((await registry.get(`${question}?include_deleted=true`)).status, 200, question)
  }
})

test('an unchanged registry answers 304 to its ETag, on every route', async () => {
  for (const path of ['/servers?limit=1', `${WEATHER}/versions`, `${WEATHER}/versions/latest`]) {
    const first = await registry.get(path)
    const etag = first.headers.get('etag') ?? ''
    assert.match(etag, /^W\/".+"$/)
    assert.is(first.headers.get('cache-control'), 'no-cache')
    for (const header of [etag, etag.slice(2), `"a", ${etag}`, '*']) {
      const again = await registry.get(path, { 'if-none-match': header })
      assert.is(again.status, 304)
      assert.is(again.headers.get('etag'), etag)
      assert.is(await again.text(), '')
    }
    assert.is((await registry.get(path, { 'if-none-match': '"another"' })).status, 200)
  }
})

test('HEAD answers as GET without a body', async () => {
  const response = await fetch(`${registry.url}/registry/main/v0.1/servers`, { method: 'HEAD' })
  assert.is(response.status, 200)
  assert.is(response.headers.get('content-type'), 'application/json')
  assert.is(await response.text(), '')
})

test.run()
