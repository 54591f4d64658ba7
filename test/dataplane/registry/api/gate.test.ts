import { readFile } from 'node:fs/promises'
import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AuthzRegistry,
  acme,
  data,
  entryPath,
  platform,
  type Reply,
  startAuthzRegistry,
} from '../../../support/registry/authz.ts'
import { reconfigure, registryFile, server } from '../../../support/registry/registry.ts'

const GATE = '/v1/registries/main/gate'
const roles = {
  superAdmin: [{ role: 'super-admin' }],
  readGates: [{ role: 'gate' }],
  manageRegistries: [{ role: 'admin' }],
}

let it: AuthzRegistry
let gateToken: string
test.before(async () => {
  it = await startAuthzRegistry({ authz: { roles } })
  gateToken = await it.idp.mint({ aud: 'https://registry.example', sub: 'gateway', role: 'gate' }, { expiresIn: 3600 })
})
test.after(() => it.close())

interface Row {
  readonly name: string
  readonly version: string
  readonly status: string
  readonly claims: object
  readonly remotes: readonly object[]
  readonly packages: readonly object[]
  readonly kubernetes?: object
}

const ask = (path = GATE, headers: Record<string, string> = {}) =>
  fetch(`${it.registry.url}${path}`, { headers: { authorization: `Bearer ${gateToken}`, ...headers } })
const read = async (path = GATE) =>
  (await ask(path)).json() as Promise<{
    revision: string
    servers: Row[]
    nextCursor?: string
    mode: string
    claims: object
  }>
const names = (rows: readonly Row[]) => rows.map(({ name, version }) => `${name}@${version}`)
const formatRefusal = ({ status, body }: Reply) => `${status} ${body.error}`

// Without its host this would be another image: that of the name's owner on Docker Hub.
const elsewhere = { registryBaseUrl: 'https://ghcr.io', identifier: 'acme/elsewhere', version: '1.0.0' }
// A publisher may write anything into a document, but that makes it no object of the cluster.
const object = { kind: 'MCPServer', namespace: 'default', name: 'weather', uid: 'u1' }
const located = {
  ...server('com.acme/located', '2.0.0'),
  _meta: {
    'io.modelcontextprotocol.registry/publisher-provided': {
      'dev.portico': { x: { metadata: { kubernetes: object } } },
    },
  },
  remotes: [{ type: 'streamable-http', url: 'https://one.example/mcp', headers: [{ name: 'X-Key', value: 'secret' }] }],
  packages: [
    { registryType: 'oci', identifier: 'ghcr.io/acme/located', version: '2.0.0', transport: { type: 'stdio' } },
    { registryType: 'oci', ...elsewhere, transport: { type: 'stdio' } },
  ],
}

test('the gate has every version of every source with its claims, visible or not', async () => {
  const { mode, claims, servers } = await read()
  assert.is(mode, 'full')
  assert.equal(claims, {})
  assert.equal(names(servers), [
    'com.acme/covered@1.0.0',
    'com.acme/covered@9.0.0',
    'com.acme/data-tool@1.0.0',
    'com.acme/platform-tool@1.0.0',
    'com.acme/shared@1.0.0',
  ])
  assert.equal(
    servers.map(({ claims }) => claims),
    [acme, data, data, platform, acme],
  )
  assert.equal((await read('/v1/registries/acme-data/gate')).claims, data)
})

test('a row has only the parts of the document that a gateway compares', async () => {
  assert.is((await it.as('super-admin', 'POST', '/v1/entries', { server: located, claims: acme })).status, 201)
  const row = (await read()).servers.find(({ name }) => name === 'com.acme/located')
  assert.equal(row, {
    name: 'com.acme/located',
    version: '2.0.0',
    status: 'active',
    claims: acme,
    remotes: [{ type: 'streamable-http', url: 'https://one.example/mcp' }],
    packages: [
      { registryType: 'oci', identifier: 'ghcr.io/acme/located', version: '2.0.0' },
      { registryType: 'oci', ...elsewhere },
    ],
  })
  const path = `${entryPath('com.acme/located')}/versions/2.0.0`
  const readStatus = async () => (await read()).servers.find(({ name }) => name === 'com.acme/located')?.status
  await it.as('super-admin', 'PATCH', `${path}/status`, { status: 'deprecated' })
  assert.is(await readStatus(), 'deprecated')
  await it.as('super-admin', 'DELETE', path)
  assert.is(await readStatus(), 'deleted')
})

test('the role readGates reads it, and so do super-admins; nobody else', async () => {
  assert.is((await ask()).status, 200)
  assert.is((await it.as('super-admin', 'GET', GATE)).status, 200)
  for (const caller of ['platform-admin', 'both-teams', 'nobody'] as const)
    assert.is(formatRefusal(await it.as(caller, 'GET', GATE)), '403 forbidden_role', caller)
  assert.is((await it.as(undefined, 'GET', GATE)).status, 401)
  assert.is(formatRefusal(await it.as('super-admin', 'GET', '/v1/registries/unknown/gate')), '404 not_found')
  assert.is((await ask('/v1/registries/unknown/gate')).status, 404)
  for (const path of ['/v1/registries', '/v1/registries/main/entries', '/v1/sources'])
    assert.is((await ask(path)).status, 403, path)
  assert.is(
    (await fetch(`${it.registry.url}${GATE}`, { method: 'POST', headers: { authorization: `Bearer ${gateToken}` } }))
      .status,
    405,
  )
})

test('a client with the current revision gets 304, any other gets the rows at once', async () => {
  const first = await ask()
  const etag = first.headers.get('etag') as string
  assert.is(etag, `"${((await first.json()) as { revision: string }).revision}"`)
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await ask(GATE, { 'if-none-match': known })
    assert.equal([again.status, again.headers.get('etag'), await again.text()], [304, etag, ''])
  }
  for (const known of ['"other"', etag.slice(1, -1), ''])
    assert.is((await ask(`${GATE}?wait=30s`, { 'if-none-match': known })).status, 200, known)
  assert.is((await ask(`${GATE}?wait=30s`)).status, 200)
  for (const wait of ['soon', '-1s', '30', '1s1']) {
    const answer = await ask(`${GATE}?wait=${wait}`)
    const { details } = (await answer.json()) as { details: { pointer: string }[] }
    assert.equal([answer.status, details.map(({ pointer }) => pointer)], [400, ['/wait']], wait)
  }
})

test('a long poll ends with the change, or with 304 when the time is over', async () => {
  const etag = (await ask()).headers.get('etag') as string
  const began = performance.now()
  const nothing = await ask(`${GATE}?wait=700ms`, { 'if-none-match': etag })
  assert.is(nothing.status, 304)
  assert.ok(performance.now() - began >= 690)

  const waiting = ask(`${GATE}?wait=30s`, { 'if-none-match': etag })
  await delay(50)
  const published = { server: server('com.acme/late'), claims: acme }
  assert.is((await it.as('super-admin', 'POST', '/v1/entries', published)).status, 201)
  const answer = await waiting
  assert.is(answer.status, 200)
  assert.ok(names(((await answer.json()) as { servers: Row[] }).servers).includes('com.acme/late@1.0.0'))
})

test('claims of an entry and of the registry, and the mode, are part of the revision', async () => {
  const revisions = new Set([(await read()).revision])
  await it.as('super-admin', 'PUT', `${entryPath('com.acme/late')}/claims`, { claims: platform })
  revisions.add((await read()).revision)
  const config = JSON.parse(await readFile(it.registry.folder.configFile, 'utf8'))
  const waiting = ask(`${GATE}?wait=30s`, { 'if-none-match': `"${(await read()).revision}"` })
  config.auth.authz.unlabelled = 'deny'
  await reconfigure(it.registry, config)
  const answer = (await (await waiting).json()) as { revision: string; unlabelled?: string }
  assert.is(answer.unlabelled, 'deny')
  revisions.add(answer.revision)
  delete config.auth.authz.unlabelled
  config.registries[0].claims = acme
  await reconfigure(it.registry, config)
  const { revision, claims } = await read()
  assert.equal(claims, acme)
  revisions.add(revision)
  assert.is(revisions.size, 4)
  config.registries[0].claims = {}
  await reconfigure(it.registry, config)
})

test('a caller who loses the role while waiting gets no rows', async () => {
  const config = JSON.parse(await readFile(it.registry.folder.configFile, 'utf8'))
  const etag = (await ask()).headers.get('etag') as string
  const waiting = ask(`${GATE}?wait=30s`, { 'if-none-match': etag })
  await delay(50)
  config.auth.authz.roles.readGates = [{ role: 'another' }]
  await reconfigure(it.registry, config)
  assert.is((await waiting).status, 403)
  config.auth.authz.roles.readGates = [{ role: 'gate' }]
  await reconfigure(it.registry, config)
})

test('a page has at most 8 MiB, cursors lead through all rows, and a foreign cursor is refused', async () => {
  const buildLarge = (name: string) => ({
    ...server(name),
    remotes: Array.from({ length: 4_000 }, (_, n) => ({ type: 'sse', url: `https://${n}.example/${'x'.repeat(100)}` })),
  })
  const many = Array.from({ length: 18 }, (_, n) => buildLarge(`com.big/n${String(n).padStart(2, '0')}`))
  await it.registry.folder.write('shared.json', registryFile([server('com.acme/shared'), ...many]))
  const all: string[] = []
  let pages = 0
  let cursor: string | undefined
  const deadline = performance.now() + 20_000
  while (all.length === 0 && performance.now() < deadline) {
    await delay(100)
    if (!names((await read()).servers).includes('com.big/n00@1.0.0')) continue
    let revision: string | undefined
    do {
      const answer = await ask(`${GATE}${cursor === undefined ? '' : `?cursor=${cursor}`}`)
      const text = await answer.text()
      assert.ok(Buffer.byteLength(text) <= 8 * 1024 * 1024)
      const page = JSON.parse(text) as { revision: string; servers: Row[]; nextCursor?: string }
      revision ??= page.revision
      assert.is(page.revision, revision)
      all.push(...names(page.servers))
      cursor = page.nextCursor
      pages++
    } while (cursor !== undefined)
  }
  assert.ok(pages > 1, `${pages}`)
  assert.is(new Set(all).size, all.length)
  assert.is(all.filter((name) => name.startsWith('com.big/')).length, 18)
  assert.equal(all.slice(-18), all.slice(-18).toSorted())
  const { nextCursor } = await read()
  for (const foreign of ['x', '!', 'a'.repeat(3_000), nextCursor])
    assert.is((await ask(`/v1/registries/acme-all/gate?cursor=${foreign}`)).status, 400, foreign)
})

test('a stopping registry answers waiting requests', async () => {
  const other = await startAuthzRegistry({ mode: 'anonymous' })
  const etag = (await fetch(`${other.registry.url}${GATE}`)).headers.get('etag') as string
  const waiting = fetch(`${other.registry.url}${GATE}?wait=60s`, { headers: { 'if-none-match': etag } })
  await delay(100)
  const began = performance.now()
  const closing = other.close()
  assert.is((await waiting).status, 304)
  await closing
  assert.ok(performance.now() - began < 5_000)
})

test.run()
