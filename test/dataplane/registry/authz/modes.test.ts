import { readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { introspectionClient, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import {
  type AuthzOptions,
  type AuthzRegistry,
  acme,
  data,
  entryPath,
  listLabels,
  platform,
  type Reply,
  startAuthzRegistry,
} from '../../../support/registry/authz.ts'
import { server } from '../../../support/registry/registry.ts'

const MAIN = '/registry/main/v0.1/servers'
const ALL = ['com.acme/covered', 'com.acme/data-tool', 'com.acme/platform-tool', 'com.acme/shared']
const formatRefusal = ({ status, body }: Reply) => `${status} ${body.error}`

/** One registry for all tests, which reconfigure it. */
let it: AuthzRegistry
let logged: Awaited<ReturnType<AuthzRegistry['restart']>>
test.before(async () => {
  it = await startAuthzRegistry()
})
test.after(() => it.close())

const start = async (options: AuthzOptions) => {
  logged = await it.restart(options)
}
const warnings = () =>
  logged()
    .filter(({ level }) => level === 'warn' || level === 40)
    .map(({ msg }) => String(msg))

test('anonymous: nothing is checked, and there is no caller to describe', async () => {
  await start({ mode: 'anonymous' })
  const as = (method: string, path: string, body?: unknown) => it.as(undefined, method, path, body)
  assert.equal(listLabels(await as('GET', '/registry/acme-data/v0.1/servers')).length > 0, true)
  assert.equal(listLabels(await as('GET', MAIN)), ALL)
  assert.is((await as('GET', '/v1/sources')).body.sources.length, 4)
  assert.is((await as('GET', '/v1/registries')).body.registries.length, 4)
  assert.is(formatRefusal(await as('GET', '/v1/me')), '401 unauthenticated')
  assert.is(formatRefusal(await as('GET', '/.well-known/oauth-protected-resource')), '404 not_found')

  // A publisher may not write what an upstream may; the error names the member.
  for (const [more, pointer] of [
    [{ title: null }, '/server/title'],
    [{ title: 'a\0b' }, '/server/title'],
    [{ description: 'a\ud83d' }, '/server/description'],
    [{ _meta: { 'x/y': [{ z: '\udfff' }] } }, '/server/_meta/x~1y/0/z'],
    [{ _meta: { 'x\ud800': 1 } }, '/server/_meta'],
    [
      { packages: [{ registryType: 'a\0', identifier: 'x', transport: { type: 'stdio' } }] },
      '/server/packages/0/registryType',
    ],
  ] as const) {
    const odd = await as('POST', '/v1/entries', { server: { ...server('com.acme/odd'), ...more } })
    assert.is(formatRefusal(odd), '400 invalid_request')
    assert.ok(JSON.stringify(odd.body).includes(pointer), JSON.stringify(odd.body))
  }
  assert.is((await as('POST', '/v1/entries', { server: server('com.acme/free') })).status, 201)
  assert.is((await as('POST', '/v1/entries', { server: server('com.acme/held'), claims: acme })).status, 201)
  assert.is(
    formatRefusal(await as('POST', '/v1/entries', { server: server('com.acme/held', '2.0.0') })),
    '400 claims_required',
  )
  assert.is(
    formatRefusal(await as('POST', '/v1/entries', { server: server('com.acme/free', '2.0.0'), claims: acme })),
    '409 claims_mismatch',
  )
  assert.is((await as('PUT', '/v1/registries/new', { sources: ['data'], claims: data })).status, 201)
  assert.is(formatRefusal(await as('DELETE', '/v1/sources/shared')), '403 read_only')
  assert.ok(warnings().some((line) => line.includes('anonymous')))
})

test('auth-only: a valid token is needed and sufficient; claims filter nothing, and a warning says so', async () => {
  await start({ mode: 'auth-only' })
  for (const path of [MAIN, '/v1/sources', '/v1/registries', '/v1/me'])
    assert.is(formatRefusal(await it.as(undefined, 'GET', path)), '401 unauthenticated')
  for (const path of ['/registry/acme-data/v0.1/servers', '/v1/sources/data', '/v1/registries/acme-data'])
    assert.is((await it.as('outsider', 'GET', path)).status, 200)
  assert.equal(listLabels(await it.as('outsider', 'GET', MAIN)), ALL)
  assert.equal((await it.as('outsider', 'GET', '/v1/me')).body, {
    subject: 'outsider',
    roles: ['superAdmin', 'manageSources', 'manageRegistries', 'manageEntries', 'readGates'],
  })
  assert.ok(
    warnings().some((line) => /authorization is not configured.*per-entry claims filtering is disabled/.test(line)),
  )

  const publish = async (claims: object | undefined, version = '1.0.0') =>
    it.as('platform-writer', 'POST', '/v1/entries', { server: server('com.acme/a', version), claims })
  assert.is(formatRefusal(await publish(undefined)), '400 claims_required')
  assert.is(formatRefusal(await publish({})), '400 claims_required')
  assert.is(formatRefusal(await publish(data)), '403 claims_not_subset')
  assert.is((await publish(platform)).status, 201)
  assert.is(formatRefusal(await publish(acme, '2.0.0')), '409 claims_mismatch')
  assert.is((await it.as('outsider', 'PUT', `${entryPath('com.acme/a')}/claims`, { claims: data })).status, 204)
  assert.is((await it.as('outsider', 'PUT', '/v1/sources/new', { managed: {}, claims: data })).status, 201)
})

test('unlabelled: deny closes registries and sources without claims', async () => {
  await start({ authz: { unlabelled: 'deny' } })
  assert.is(formatRefusal(await it.as('platform-writer', 'GET', MAIN)), '403 forbidden_claims')
  assert.is((await it.as('platform-writer', 'GET', '/registry/acme-all/v0.1/servers')).status, 200)
  assert.is((await it.as('super-admin', 'GET', MAIN)).status, 200)
  assert.is(formatRefusal(await it.as('platform-admin', 'GET', '/v1/registries/main')), '404 not_found')
})

/** Uses node:http: `fetch` would normalize the path. */
const readStatus = (path: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(it.registry.url)
    request({ hostname, port, path }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
      .on('error', reject)
      .end()
  })

test('public paths, and no others, are open without a token', async () => {
  await start({ mode: 'auth-only', auth: { publicPaths: ['/registry/main', '/v1/sources'] } })
  assert.equal(listLabels(await it.as(undefined, 'GET', MAIN)), ALL)
  assert.is(await readStatus(`${MAIN}/com.acme%2Fshared/versions/latest`), 200)
  for (const path of [
    '/registry/acme-all/v0.1/servers',
    '/registry/main/../acme-all/v0.1/servers',
    '/registry/main/%2e%2e/acme-all/v0.1/servers',
    '/registry/main%2f..%2facme-all/v0.1/servers',
    '/registry/main/..%2facme-all/v0.1/servers',
    '/registry/mai%6e/v0.1/servers',
    '/registry/main2/v0.1/servers',
    '//registry/main/v0.1/servers',
    '/v1/registries',
    '/v1/me',
  ])
    assert.is(await readStatus(path), 401, path)
  // Anonymous callers have no roles.
  assert.is(formatRefusal(await it.as(undefined, 'GET', '/v1/sources')), '401 unauthenticated')
  assert.is(formatRefusal(await it.as('Bearer garbage', 'GET', MAIN)), '401 unauthenticated')
})

test('under full authorization a public path shows no entries, with or without claims', async () => {
  await start({ auth: { publicPaths: ['/registry'] } })
  assert.equal(listLabels(await it.as(undefined, 'GET', MAIN)), [])
  assert.is(formatRefusal(await it.as(undefined, 'GET', '/registry/acme-all/v0.1/servers')), '403 forbidden_claims')
  assert.equal(listLabels(await it.as('super-admin', 'GET', MAIN)), ALL)
})

test('tokens of several issuers are accepted, opaque ones too, and new rules apply on reload', async () => {
  const other = await startIdentityProvider()
  await start({})
  const { folder } = it.registry
  await writeFile(join(folder.directory, 'secret'), introspectionClient.secret)
  const opaque = other.grant({ aud: 'https://other.example', sub: 'carol', ...platform })
  const jwt = await other.mint({ aud: 'https://other.example', sub: 'dave', ...data })
  for (const token of [opaque, jwt])
    assert.is(formatRefusal(await it.as(`Bearer ${token}`, 'GET', '/v1/me')), '401 unauthenticated')

  const config = JSON.parse(await readFile(folder.configFile, 'utf8'))
  config.auth.oauth.providers.push({
    name: 'other',
    issuerUrl: other.issuer,
    audience: 'https://other.example',
    introspectionUrl: other.introspectionUrl,
    clientId: introspectionClient.id,
    clientSecretFile: '../secret',
  })
  config.auth.authz.roles.manageEntries = [{ team: 'platform' }]
  await folder.configure(config)
  const readMe = async (token: string) => (await it.as(`Bearer ${token}`, 'GET', '/v1/me')).body
  await eventually('the other issuer is known', async () => (await readMe(opaque)).subject === 'carol')
  assert.equal(await readMe(opaque), { subject: 'carol', roles: ['manageEntries'] })
  assert.equal(await readMe(jwt), { subject: 'dave', roles: [] })
  assert.equal((await it.as('platform-writer', 'GET', '/v1/me')).body.roles, ['manageEntries'])
  assert.equal(listLabels(await it.as(`Bearer ${opaque}`, 'GET', MAIN)), [
    'com.acme/covered',
    'com.acme/platform-tool',
    'com.acme/shared',
  ])
  assert.equal((await it.as(undefined, 'GET', '/.well-known/oauth-protected-resource')).body.authorization_servers, [
    it.idp.issuer,
    other.issuer,
  ])
  await other.close()
})

test('bad bodies: limits, types, depth, and all findings at once', async () => {
  await start({ mode: 'anonymous', config: { limits: { bodyBytes: 2048 } } })
  const post = (body: unknown) => it.as(undefined, 'POST', '/v1/entries', body)
  assert.is(
    formatRefusal(await post({ server: server('a/b', '1.0.0', { description: 'x'.repeat(3000) }) })),
    '413 too_large',
  )
  assert.is(formatRefusal(await post('{"server":')), '400 parse_error')
  assert.is(formatRefusal(await post('')), '400 parse_error')
  assert.is(formatRefusal(await post(`{"server":${'['.repeat(500)}${']'.repeat(500)}}`)), '400 invalid_request')
  for (const value of ['[]', 'null', '"x"', '1']) assert.is(formatRefusal(await post(value)), '400 invalid_request')
  const untyped = await fetch(`${it.registry.url}/v1/entries`, { method: 'POST', body: '{}' })
  assert.is(untyped.status, 415)
  const compressed = await fetch(`${it.registry.url}/v1/entries`, {
    method: 'POST',
    body: '{}',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  })
  assert.equal([compressed.status, compressed.headers.get('accept-encoding')], [415, 'identity'])
  const binary = await fetch(`${it.registry.url}/v1/entries`, {
    method: 'POST',
    body: Buffer.from([0x7b, 0xff, 0x7d]),
    headers: { 'content-type': 'application/json' },
  })
  assert.is(binary.status, 400)

  const { body } = await post({
    server: {
      $schema: 'https://static.modelcontextprotocol.io/schemas/2025-07-09/server.schema.json',
      name: 'plain',
      description: '',
      version: '^1.0.0',
      remotes: [{ type: 'sse' }, { type: 'pigeon', url: 'https://example.com' }],
      packages: [{ registryType: 'npm', identifier: 'x', transport: { type: 'stdio' }, version: 'latest' }],
      icons: [{ src: 'http://example.com/a.png' }],
    },
    claims: { org: 1 },
    source: 'Not A Name',
  })
  assert.equal(body.details.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    '/claims/org',
    '/server/$schema',
    '/server/description',
    '/server/icons/0/src',
    '/server/name',
    '/server/packages/0/version',
    '/server/remotes/0/url',
    '/server/remotes/1',
    '/server/version',
    '/source',
  ])
})

for (const date of ['2025-12-11', '2025-10-17', '2025-10-11', '2025-09-29', '2025-09-16'])
  test(`a document under the schema of ${date} is published as it is`, async () => {
    await start({ mode: 'anonymous' })
    const document = {
      $schema: `https://static.modelcontextprotocol.io/schemas/${date}/server.schema.json`,
      ...server('com.acme/dated'),
      remotes: [{ type: 'streamable-http', url: 'https://{tenant}.example.com/mcp', variables: { tenant: {} } }],
      packages: [
        {
          registryType: 'npm',
          identifier: '@acme/dated',
          version: '1.0.0',
          transport: { type: 'stdio' },
          runtimeArguments: [{ type: 'named', name: '-y' }],
          packageArguments: [{ type: 'positional', valueHint: 'folder', isRequired: true }],
          environmentVariables: [{ name: 'TOKEN', isSecret: true }],
        },
      ],
      'x-own': 1.5,
    }
    assert.is((await it.as(undefined, 'POST', '/v1/entries', { server: document })).status, 201)
    const { body } = await it.as(undefined, 'GET', `${MAIN}/com.acme%2Fdated/versions/latest`)
    assert.equal(body.server, document)
  })

test.run()
