import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { GatedViews } from '../../../../dataplane/gateway/core/shared-view.ts'
import { RegistryMatches } from '../../../../dataplane/gateway/gate/catalog-gate.ts'
import { comparableUrl } from '../../../../dataplane/gateway/gate/location.ts'
import { type GateMember, matchMembers } from '../../../../dataplane/gateway/gate/match.ts'
import { parseGatePage, readGatePage } from '../../../../dataplane/gateway/gate/rows.ts'
import { runWhole } from '../../../../dataplane/gateway/limits/slices.ts'
import { Definitions } from '../../../../dataplane/gateway/pins/definitions.ts'
import type { GateRow } from '../../../support/gateway/gate-registry.ts'

const buildRows = (servers: readonly GateRow[]) =>
  readGatePage(
    {
      ...{ revision: 'r', mode: 'full', claims: {} },
      servers: servers.map((row) => ({ version: '1.0.0', status: 'active', claims: {}, ...row })),
    },
    new Map(),
  ).rows

const matchRow = (
  member: Omit<GateMember, 'backend'>,
  servers: readonly GateRow[],
  by: 'identity' | 'name' = 'identity',
) => {
  const [match] = matchMembers([{ backend: 'weather', ...member }], buildRows(servers), by)
  return match?.reason ?? match?.rows.map(({ name, version }) => `${name}@${version}`)
}

const remote = (url: string) => [{ type: 'streamable-http', url }]
const oci = (identifier: string, more: object = {}) => [{ registryType: 'oci', identifier, ...more }]

test('different spellings of the same URL match', () => {
  const place = comparableUrl('https://tools.example.com/mcp')
  for (const text of [
    'HTTPS://Tools.EXAMPLE.com/mcp',
    'https://tools.example.com:443/mcp',
    'https://tools.example.com./mcp',
    'https://tools.example.com/a/../mcp',
    'https://tools.example.com/%2e/mcp',
    'https://tools.example.com/%6Dcp',
    'https://tools.example.com/mcp#part',
    'https:\\\\tools.example.com\\mcp',
    ' https://tools.example.com/mcp\n',
    'https://ｔools.example.com/mcp',
  ])
    assert.is(comparableUrl(text), place, text)
  assert.is(comparableUrl('https://bücher.example/mcp'), comparableUrl('https://xn--bcher-kva.example/mcp'))
  assert.is(comparableUrl('https://a.example'), comparableUrl('https://a.example/'))
})

test('different URLs do not match', () => {
  const place = comparableUrl('https://tools.example.com/mcp')
  for (const text of [
    'http://tools.example.com/mcp',
    'https://tools.example.com:8443/mcp',
    'https://tools.example.com/MCP',
    'https://tools.example.com/mcp/',
    'https://tools.example.com/mcp?tenant=a',
    'https://tools.example.com/%2Fmcp',
    'https://tools.example.com.evil.example/mcp',
    'https://tооls.example.com/mcp',
  ])
    assert.is.not(comparableUrl(text), place, text)
})

test('a URL with credentials or another scheme matches nothing', () => {
  for (const text of [
    'https://user@tools.example.com/mcp',
    'https://user:pw@tools.example.com/mcp',
    'https://@tools.example.com/mcp',
    'https://:@tools.example.com/mcp',
    'https://tools.example.com@evil.example/mcp',
    'https:/\\@tools.example.com/mcp',
    'ftp://tools.example.com/mcp',
    'stdio:weather',
    '',
    '/mcp',
  ])
    assert.is(comparableUrl(text), undefined, text)
})

test('an object that the catalog lists from the cluster matches by its uid alone', () => {
  const row = {
    name: 'dev.portico.k8s.default/weather',
    kubernetes: { kind: 'MCPServer', namespace: 'default', name: 'weather', uid: 'u1' },
  }
  assert.equal(matchRow({ uid: 'u1' }, [row]), ['dev.portico.k8s.default/weather@1.0.0'])
  assert.is(matchRow({ uid: 'u2' }, [row]), 'NotInCatalog')
  assert.is(matchRow({}, [row]), 'NotInCatalog')
  assert.is(matchRow({ uid: 'u1' }, [{ ...row, status: 'deleted' }]), 'EntryDeleted')
})

test('an annotation names an entry, and the location has to match too', () => {
  const row = { name: 'com.example/weather', remotes: remote('https://weather.example.com/mcp') }
  const here = { server: 'com.example/weather', url: 'https://WEATHER.example.com:443/x/../mcp' }
  assert.equal(matchRow(here, [row]), ['com.example/weather@1.0.0'])
  assert.equal(matchRow({ ...here, version: '1.0.0' }, [row]), ['com.example/weather@1.0.0'])
  assert.is(matchRow({ ...here, version: '2.0.0' }, [row]), 'NotInCatalog')
  assert.is(matchRow({ ...here, url: 'https://evil.example/mcp' }, [row]), 'LocationMismatch')
  assert.is(matchRow({ server: 'com.example/weather' }, [row]), 'LocationMismatch')
  assert.is(matchRow({ ...here, server: 'com.example/other' }, [row]), 'NotInCatalog')
  assert.is(matchRow(here, [{ ...row, status: 'deleted' }]), 'EntryDeleted')
  assert.is(matchRow({ ...here, url: 'https://evil.example/mcp' }, [{ ...row, status: 'deleted' }]), 'EntryDeleted')
  assert.is(
    matchRow({ ...here, url: 'https://weather.example.com/mcp' }, [
      { ...row, remotes: remote('https://user:pw@weather.example.com/mcp') },
    ]),
    'LocationMismatch',
  )
})

test('without an annotation a matching location in one of several rows is enough', () => {
  const row = { name: 'com.example/weather', remotes: remote('https://weather.example.com/mcp') }
  assert.equal(
    matchRow({ url: 'https://weather.example.com/mcp' }, [
      { ...row, status: 'deleted' },
      { ...row, version: '2.0.0' },
    ]),
    ['com.example/weather@2.0.0'],
  )
  assert.is(matchRow({ url: 'https://other.example/mcp' }, [row]), 'NotInCatalog')
})

test('a name alone is enough only if that is configured', () => {
  const row = { name: 'com.example/weather' }
  assert.is(matchRow({}, [row]), 'NotInCatalog')
  assert.equal(matchRow({}, [row], 'name'), ['com.example/weather@1.0.0'])
  assert.equal(matchRow({ server: 'com.example/weather' }, [row], 'name'), ['com.example/weather@1.0.0'])
  assert.is(matchRow({ server: 'com.example/other' }, [row], 'name'), 'NotInCatalog')
  assert.is(matchRow({ name: 'other' }, [row], 'name'), 'NotInCatalog')
})

const A = `sha256:${'a'.repeat(64)}`
const B = `sha256:${'b'.repeat(64)}`

test('an image matches by its digest, or by its tag if the catalog has no digest', () => {
  for (const [image, packages] of [
    ['ghcr.io/acme/tool:1.2', oci('ghcr.io/acme/tool:1.2')],
    ['ghcr.io/acme/tool:1.2', oci('ghcr.io/acme/tool', { version: '1.2' })],
    ['GHCR.io/acme/tool:1.2', oci('ghcr.io/acme/tool:1.2')],
    ['tool', oci('docker.io/library/tool:latest')],
    ['acme/tool:1', oci('index.docker.io/acme/tool:1')],
    ['acme/tool:1', oci('acme/tool', { registryBaseUrl: 'https://docker.io', version: '1' })],
    ['ghcr.io/acme/tool:1', oci('acme/tool', { registryBaseUrl: 'https://ghcr.io', version: '1' })],
    ['localhost:5000/tool:1', oci('localhost:5000/tool:1')],
    [`ghcr.io/acme/tool@${A}`, oci(`ghcr.io/acme/tool@${A}`)],
    [`ghcr.io/acme/tool:1.2@${A}`, oci(`ghcr.io/acme/tool:1.3@${A}`)],
    [`ghcr.io/acme/tool@${A}`, oci('ghcr.io/acme/tool', { version: A })],
  ] as const)
    assert.equal(
      matchRow({ image }, [{ name: 'a/b', packages }]),
      ['a/b@1.0.0'],
      `${image} ${JSON.stringify(packages)}`,
    )
})

test('another digest, another tag or another repository is another image', () => {
  for (const [image, packages] of [
    [`ghcr.io/acme/tool@${B}`, oci(`ghcr.io/acme/tool@${A}`)],
    [`ghcr.io/acme/tool:1.2@${B}`, oci('ghcr.io/acme/tool:1.2')],
    [`ghcr.io/acme/tool@${A}`, oci('ghcr.io/acme/tool:1.2')],
    ['ghcr.io/acme/tool:1.2', oci(`ghcr.io/acme/tool:1.2@${A}`)],
    ['ghcr.io/acme/tool:1.3', oci('ghcr.io/acme/tool:1.2')],
    ['ghcr.io/acme/tool', oci('ghcr.io/acme/tool:1.2')],
    ['ghcr.io/evil/tool:1.2', oci('ghcr.io/acme/tool:1.2')],
    ['acme/tool:1', oci('acme/tool', { registryBaseUrl: 'https://ghcr.io', version: '1' })],
    ['ghcr.io/acme/tool:1.2', [{ registryType: 'npm', identifier: 'ghcr.io/acme/tool', version: '1.2' }]],
    ['ghcr.io/acme/tool@sha256:short', oci('ghcr.io/acme/tool@sha256:short')],
  ] as const) {
    const rows = [{ name: 'a/b', packages }]
    assert.is(matchRow({ image }, rows), 'NotInCatalog', `${image} ${JSON.stringify(packages)}`)
    assert.is(matchRow({ image, server: 'a/b' }, rows), 'LocationMismatch', image)
  }
})

test('an unreadable row approves nothing, and others are read', () => {
  const url = 'https://weather.example.com/mcp'
  const good = { name: 'a/good', version: '1', status: 'active', claims: { team: 'a' }, remotes: remote(url) }
  const odd = [
    null,
    7,
    'x',
    [],
    {},
    { ...good, claims: { team: 1 } },
    { ...good, claims: [] },
    { ...good, claims: undefined },
    { ...good, status: 'great' },
    { ...good, name: 3 },
    { ...good, remotes: 'x' },
    { ...good, remotes: [null, { url: 3 }] },
  ]
  const { rows } = readGatePage({ revision: 'r', mode: 'full', claims: {}, servers: [...odd, good] }, new Map())
  const [match] = matchMembers([{ backend: 'w', url }], rows, 'identity')
  assert.equal(
    match?.rows.map(({ name }) => name),
    ['a/good'],
  )
  for (const answer of [
    null,
    3,
    'x',
    [],
    {},
    { revision: 'r' },
    { revision: 'r', mode: 'open', claims: {}, servers: [] },
    { revision: '', mode: 'full', claims: {}, servers: [] },
    { revision: 'r', mode: 'full', claims: { a: 1 }, servers: [] },
    { revision: 'r', mode: 'full', servers: [] },
    { revision: 'r', mode: 'full', claims: {}, servers: {} },
  ])
    assert.throws(() => readGatePage(answer, new Map()), undefined, JSON.stringify(answer))
})

test('members with names such as toString match nothing by accident', () => {
  for (const name of ['constructor', '__proto__', 'toString'])
    assert.is(matchRow({ server: name, name, uid: name }, [{ name: 'a/b' }]), 'NotInCatalog')
})

test('an entry that is listed again and again counts once', () => {
  const remotes = Array.from({ length: 20 }, (_, index) => ({ url: `https://s${index}.example/mcp` }))
  const rows = buildRows(
    Array.from({ length: 2_000 }, (_, index) => ({
      ...{ name: `a/b${index}`, remotes, claims: { team: index % 2 === 0 ? 'one' : 'two' } },
      status: index % 3 === 0 ? 'deprecated' : 'active',
    })),
  )
  const members = remotes.map(({ url }, index) => ({ backend: `m${index}`, url }))
  for (const { rows: found } of matchMembers(members, rows, 'identity'))
    assert.equal(
      found.map(({ name, status }) => `${name} ${status}`),
      ['a/b0 deprecated', 'a/b1 active', 'a/b2 active', 'a/b3 deprecated'],
    )
})

test('while a large catalog is matched, other requests are served and the earlier approvals hold', async () => {
  const page = { revision: 'r', mode: 'full' as const, claims: {}, closedWithoutClaims: false, nextCursor: undefined }
  const buildSnapshot = (count: number, more: readonly GateRow[] = []) => ({
    ...page,
    rows: buildRows([
      ...Array.from({ length: count }, (_, index) => ({ name: `a/b${index}`, remotes: remote(`https://b/${index}`) })),
      ...more,
    ]),
  })
  const old = { backend: 'old', url: 'https://old.example/mcp' }
  const added = { backend: 'added', url: 'https://added.example/mcp' }
  const own = [old, added].map(({ backend, url }) => ({ name: `own/${backend}`, remotes: remote(url) }))
  let answers = 0
  const matches = new RegistryMatches(() => answers++)
  const small = buildSnapshot(0, own)
  const listRowNames = (found: ReturnType<typeof matches.of>) => found?.matches.map((match) => match?.rows[0]?.name)
  assert.equal(listRowNames(matches.of(small, [old], 'identity')), ['own/old'])
  const large = buildSnapshot(200_000, own.slice(1))
  const members = [old, added]
  assert.equal(listRowNames(matches.of(large, members, 'identity')), ['own/old', undefined])
  let turns = 0
  const count = setInterval(() => turns++)
  assert.is.not(matches.pending, undefined)
  await matches.pending
  clearInterval(count)
  assert.is(answers, 1)
  assert.ok(turns > 0)
  assert.equal(listRowNames(matches.of(large, members, 'identity')), [undefined, 'own/added'])
  assert.is(answers, 1)
})

test('the text of a page is parsed in steps', () => {
  const row = {
    name: 'a/b',
    version: '1',
    status: 'active',
    claims: { team: 'x' },
    remotes: remote('https://a.example'),
  }
  const answer = {
    revision: 'r',
    mode: 'full',
    claims: {},
    servers: [row, null, { ...row, name: 'c/d' }],
    nextCursor: 'n',
  }
  for (const text of [JSON.stringify(answer), JSON.stringify(answer, null, 2), ` ${JSON.stringify(answer)}\n`])
    assert.equal(runWhole(parseGatePage(text, new Map())), readGatePage(answer, new Map()))
  const whole = JSON.stringify(answer)
  for (const text of ['', '[]', 'null', '3', `${whole}x`, whole.slice(0, -1), whole.replace('null', 'nul')])
    assert.throws(() => runWhole(parseGatePage(text, new Map())), undefined, text)
  for (const servers of ['{}', 'null', '[1', '[1 2]'])
    assert.throws(() =>
      runWhole(parseGatePage(`{"revision":"r","mode":"full","claims":{},"servers":${servers}}`, new Map())),
    )
})

test('fewer callers are remembered if their claims are large', () => {
  const views = new GatedViews({ host: { gate: { enforces: true } }, shared: {}, ownViewOf: () => undefined } as never)
  const matchFor = (index: number, groups: string) =>
    views.viewFor({ kind: 'authenticated', claims: { groups, index } } as never, `caller-${index}`, undefined)
  const first = matchFor(0, '')
  for (let index = 1; index < 100; index++) matchFor(index, 'x'.repeat(16_000))
  assert.is(views.known('caller-0'), first)
  for (let index = 100; index < 2_000; index++) matchFor(index, 'x'.repeat(16_000))
  assert.is(views.known('caller-1'), views.anonymous)
  assert.is.not(views.known('caller-1999'), views.anonymous)
})

test('the catalogs of a set are built once, and those of unused sets are dropped', () => {
  const lists = { tools: [], prompts: [], resources: [], templates: [], skills: [], capabilities: {} }
  const pins = { definitions: new Definitions(undefined), withheld: () => [] }
  const backends = ['one', 'two'].map((name) => ({ name, ...lists, ...pins }))
  const shared = { version: 1, backends, allListed: true }
  const host = { setup: { config: { backends: [] } }, gate: { enforces: true } }
  const views = new GatedViews({ host, shared, ownViewOf: () => undefined } as never)
  const buildSet = (...names: string[]) => ({ key: JSON.stringify(names), names: new Set(names) })
  const one = buildSet('one')
  const first = views.catalogsOf(one)
  assert.is(views.catalogsOf(one), first)
  assert.is(views.catalogsOf(buildSet('one')), first, 'a set that was created again')
  assert.is(views.catalogsOf(buildSet('one', 'two')), shared)
  shared.version++
  const next = views.catalogsOf(one)
  assert.is.not(next, first)
  assert.is(views.lastCatalogsOf(one), next)
  const rare = buildSet('two')
  const dropped = views.catalogsOf(rare)
  for (let index = 0; index < 300; index++) {
    views.catalogsOf(buildSet('one', `gone-${index}`))
    for (let use = 0; use < 4; use++) assert.is(views.catalogsOf(one), next)
  }
  assert.is(views.count, 256)
  assert.is(views.lastCatalogsOf(rare), undefined)
  assert.is.not(views.catalogsOf(rare), dropped)
})

test.run()
