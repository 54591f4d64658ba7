/** Checks that our credentials are sent only to the configured origin, and to none that an answer names. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import { type GatewayConfig, gatewayConfigSchema, type OidcConfig } from '../../../dataplane/config/gateway.ts'
import { ConfigError } from '../../../dataplane/config/load.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { createAuthenticate } from '../../../dataplane/identity/index.ts'
import type { PublicError } from '../../../dataplane/server/errors.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { recordLog } from '../../support/kept-log.ts'

const AUDIENCE = 'toolhive'
const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface ReceivedRequest {
  readonly path: string
  readonly authorization: string | undefined
  readonly body: string
}

/** Starts a server that answers by path, and records its requests. */
async function startServer(answers: (origin: string) => Readonly<Record<string, unknown>>) {
  const requests: ReceivedRequest[] = []
  async function answer(request: IncomingMessage, response: ServerResponse) {
    let body = ''
    for await (const chunk of request) body += chunk
    requests.push({ path: request.url ?? '', authorization: request.headers.authorization, body })
    const found = answers(origin)[request.url ?? '']
    if (typeof found === 'string') response.writeHead(302, { location: found }).end()
    else response.writeHead(found === undefined ? 404 : 200).end(JSON.stringify(found ?? {}))
  }
  const server = createServer((request, response) => answer(request, response).catch(() => response.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { origin, requests }
}

const { privateKey, publicKey } = await generateKeyPair('ES256')
const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }] }

const mint = (issuer: string, claims: object = {}) =>
  new SignJWT({ sub: 'system:serviceaccount:agents:writer', aud: AUDIENCE, iss: issuer, ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'one' })
    .setExpirationTime('5m')
    .sign(privateKey)

function authenticate(oidc: Partial<OidcConfig>, tokenFolder?: string, log = recordLog()) {
  const verify = createAuthenticate(
    { type: 'oidc', oidc: { audience: AUDIENCE, ...oidc } },
    {
      resourceMetadataUrl: () => undefined,
      log: log.log,
      observe: observeNothing,
      ...(tokenFolder && { tokenFolder }),
    },
  )
  cleanups.push(() => verify.close())
  const call = async (token: string) => verify(`Bearer ${token}`)
  const readCode = (token: string) =>
    call(token).then(
      () => 'accepted',
      (error: PublicError) => error.code,
    )
  return { call, readCode, issuers: () => verify.issuers(), text: log.text }
}

function folderWithToken() {
  const folder = temporaryFolder({ 'jwks/token': 'of-the-user\n', 'other/token': 'of-the-pod\n' })
  cleanups.push(() => folder[Symbol.dispose]())
  return folder.path
}

test('a mounted token is sent to the configured issuer, not to the keys’ address in its metadata', async () => {
  const keys = await startServer(() => ({ '/keys': jwks }))
  const issuer = await startServer((origin) => ({
    '/.well-known/openid-configuration': { issuer: origin, jwks_uri: `${keys.origin}/keys` },
  }))
  const folder = folderWithToken()
  const { readCode } = authenticate(
    { issuer: issuer.origin, bearerTokenFile: join(folder, 'jwks/token') },
    join(folder, 'jwks'),
  )
  assert.is(await readCode(await mint(issuer.origin)), 'accepted', 'the keys are public')
  assert.ok(issuer.requests.every(({ authorization }) => authorization === 'Bearer of-the-user'))
  assert.equal(keys.requests, [{ path: '/keys', authorization: undefined, body: '' }])
})

test('the audience of tokens without aud is in another claim (Cognito)', async () => {
  const issuer = await startServer((origin) => ({
    '/.well-known/openid-configuration': { issuer: origin, jwks_uri: `${origin}/keys` },
    '/keys': jwks,
  }))
  const { readCode } = authenticate({ issuer: issuer.origin, audienceClaim: 'client_id' })
  const usual = authenticate({ issuer: issuer.origin })
  const named = authenticate({ issuer: issuer.origin, audienceClaim: 'aud' })
  for (const [claims, expected] of [
    [{ aud: undefined, client_id: AUDIENCE }, 'accepted'],
    [{ aud: 'somebody', client_id: ['other', AUDIENCE] }, 'accepted'],
    [{ aud: AUDIENCE }, 'unauthenticated'],
    [{ aud: AUDIENCE, client_id: 'other' }, 'unauthenticated'],
    [{ aud: AUDIENCE, client_id: { [AUDIENCE]: AUDIENCE } }, 'unauthenticated'],
    [{ aud: AUDIENCE, client_id: null }, 'unauthenticated'],
  ] as const) {
    const token = await mint(issuer.origin, claims)
    assert.is(await readCode(token), expected, JSON.stringify(claims))
    for (const other of [usual, named])
      assert.is(await other.readCode(token), claims.aud === AUDIENCE ? 'accepted' : 'unauthenticated')
  }
  const own = authenticate({ issuer: issuer.origin, audienceClaim: 'constructor' })
  assert.is(await own.readCode(await mint(issuer.origin)), 'unauthenticated')
})

test('a mounted token does not follow a redirect', async () => {
  const thief = await startServer(() => ({ '/keys': jwks }))
  const issuer = await startServer(() => ({ '/keys': `${thief.origin}/keys` }))
  const folder = folderWithToken()
  const file = join(folder, 'jwks/token')
  const settings = { issuer: issuer.origin, jwksUrl: `${issuer.origin}/keys`, bearerTokenFile: file }
  const { readCode } = authenticate(settings, join(folder, 'jwks'))
  assert.is(await readCode(await mint(issuer.origin)), 'unavailable')
  assert.is(issuer.requests[0]?.authorization, 'Bearer of-the-user')
  assert.equal(thief.requests, [])
})

test('a link out of the token folder is not followed; links inside are, as Kubernetes mounts them', async () => {
  const issuer = await startServer((origin) => ({
    '/.well-known/openid-configuration': { issuer: origin, jwks_uri: `${origin}/keys` },
    '/keys': jwks,
  }))
  const folder = folderWithToken()
  mkdirSync(join(folder, 'jwks/idp/..2026'), { recursive: true })
  writeFileSync(join(folder, 'jwks/idp/..2026/token'), 'linked')
  symlinkSync('..2026', join(folder, 'jwks/idp/..data'))
  symlinkSync('..data/token', join(folder, 'jwks/idp/token'))
  symlinkSync(join(folder, 'other/token'), join(folder, 'jwks/stolen'))
  symlinkSync(join(folder, 'jwks'), join(folder, 'run'))
  const use = (file: string) =>
    authenticate({ issuer: issuer.origin, bearerTokenFile: join(folder, file) }, join(folder, 'run'))
  assert.is(await use('run/idp/token').readCode(await mint(issuer.origin)), 'accepted')
  assert.is(issuer.requests[0]?.authorization, 'Bearer linked')
  const before = issuer.requests.length
  for (const file of ['run/stolen', 'other/token', 'run/../other/token']) {
    const { readCode, text } = use(file)
    assert.is(await readCode(await mint(issuer.origin)), 'unavailable', file)
    assert.match(text(), 'leads out of')
    assert.not.match(text(), 'of-the-pod')
  }
  assert.is(issuer.requests.length, before, 'no request was sent')
})

test('a client secret and callers’ tokens are sent only to an introspection endpoint at the issuer’s own origin', async () => {
  const thief = await startServer(() => ({ '/introspect': { active: true } }))
  const issuer = await startServer((origin) => ({
    '/.well-known/openid-configuration': {
      issuer: origin,
      jwks_uri: `${origin}/keys`,
      introspection_endpoint: `${thief.origin}/introspect`,
    },
    '/keys': jwks,
  }))
  const introspection = { clientId: 'us', clientSecretFile: join(folderWithToken(), 'other/token') }
  const { readCode, text } = authenticate({ issuer: issuer.origin, introspection })
  assert.is(await readCode('opaque'), 'unavailable')
  assert.match(text(), 'is at another origin')
  assert.equal(thief.requests, [])
  const named = authenticate({
    issuer: issuer.origin,
    introspection: { ...introspection, url: `${thief.origin}/introspect` },
  })
  assert.is(await named.readCode('opaque'), 'unauthenticated', 'a configured endpoint is called')
  assert.is(thief.requests.length, 1)
})

const startCluster = (state: { issuer: unknown; jwks?: object }) =>
  startServer(() => ({
    '/.well-known/openid-configuration': { issuer: state.issuer, jwks_uri: 'http://127.0.0.1:9/elsewhere' },
    '/openid/v1/jwks': state.jwks ?? jwks,
  }))

test('issuer and keys of a cluster come from its API server, and only that gets the token', async () => {
  const state = { issuer: 'https://oidc.cloud.example/id/1' as unknown }
  const server = await startCluster(state)
  const tokenFile = join(folderWithToken(), 'other/token')
  const { call, readCode, issuers } = authenticate({ cluster: { apiServer: server.origin, tokenFile } })
  const caller = await call(await mint('https://oidc.cloud.example/id/1'))
  assert.is(caller.kind === 'authenticated' && caller.issuer, 'https://oidc.cloud.example/id/1')
  assert.equal(issuers(), ['https://oidc.cloud.example/id/1'])
  assert.equal(
    server.requests.map(({ path, authorization }) => [path, authorization]),
    ['/.well-known/openid-configuration', '/openid/v1/jwks'].map((path) => [path, 'Bearer of-the-pod']),
  )
  assert.is(await readCode(await mint('https://idp.example')), 'unauthenticated')
  assert.is(await readCode(await mint('')), 'unauthenticated')
})

test('a changed cluster issuer is noticed with its first token, and unknown issuers cause no request each', async () => {
  const state = { issuer: 'https://one.example' as unknown }
  const server = await startCluster(state)
  const tokenFile = join(folderWithToken(), 'other/token')
  const { readCode, issuers } = authenticate({ cluster: { apiServer: server.origin, tokenFile } })
  assert.is(await readCode(await mint('https://one.example')), 'accepted')
  state.issuer = 'https://two.example'
  assert.is(await readCode(await mint('https://two.example')), 'accepted')
  assert.equal(issuers(), ['https://two.example'])
  const before = server.requests.length
  for (let count = 0; count < 50; count++)
    assert.is(await readCode(await mint(`https://${count}.example`)), 'unauthenticated')
  assert.ok(server.requests.length - before <= 2, `${server.requests.length - before} questions`)
})

for (const issuer of [undefined, null, '', 7, {}, [], 'x'.repeat(3000)])
  test(`with an API server that names ${JSON.stringify(issuer)?.slice(0, 20)} as its issuer every token is refused`, async () => {
    const server = await startCluster({ issuer })
    const { readCode } = authenticate({
      cluster: { apiServer: server.origin, tokenFile: join(folderWithToken(), 'other/token') },
    })
    assert.is(await readCode(await mint('https://one.example')), 'unavailable')
    assert.is(await readCode(await mint('x'.repeat(3000))), 'unavailable')
  })

test('a rule admits one ServiceAccount, or those of one namespace', async () => {
  const server = await startCluster({ issuer: 'https://one.example' })
  const cluster = { apiServer: server.origin, tokenFile: join(folderWithToken(), 'other/token') }
  const mintFor = (sub: string) => mint('https://one.example', { sub: `system:serviceaccount:${sub}` })
  const one = authenticate({ cluster, serviceAccount: { namespace: 'agents', name: 'writer' } })
  assert.is(await one.readCode(await mintFor('agents:writer')), 'accepted')
  for (const other of ['agents:writer2', 'agents:reader', 'agents2:writer', 'agents', ''])
    assert.is(await one.readCode(await mintFor(other)), 'unauthenticated', other)
  const all = authenticate({ cluster, serviceAccount: { namespace: 'agents' } })
  assert.is(await all.readCode(await mintFor('agents:reader')), 'accepted')
  assert.is(await all.readCode(await mintFor('agents2:reader')), 'unauthenticated')
  assert.is(await all.readCode(await mint('https://one.example', { sub: 'agents:reader' })), 'unauthenticated')
})

test('opaque tokens of a cluster are introspected without credentials, and the subject decides', async () => {
  const until = Math.floor(Date.now() / 1000) + 300
  const answer = { active: true, sub: 'system:serviceaccount:agents:writer', aud: AUDIENCE, exp: until }
  const server = await startCluster({ issuer: 'https://one.example' })
  const endpoint = await startServer(() => ({ '/introspect': answer }))
  const settings = {
    cluster: { apiServer: server.origin, tokenFile: join(folderWithToken(), 'other/token') },
    introspection: { url: `${endpoint.origin}/introspect` },
  }
  assert.is(await authenticate(settings).readCode('opaque'), 'accepted')
  assert.is(endpoint.requests[0]?.authorization, undefined)
  const others = authenticate({ ...settings, serviceAccount: { namespace: 'others' } })
  assert.is(await others.readCode('opaque'), 'unauthenticated')
})

const JWKS = '/var/run/secrets/portico/jwks'
const refused: readonly [what: string, oidc: object, says: string][] = [
  ['no issuer', {}, '/incomingAuth/oidc/issuer'],
  ...['/etc/passwd', '../cluster/token', `${JWKS}/../a`, `${JWKS}/a/./b`, `${JWKS}//a`, JWKS, `${JWKS}/`].map(
    (path): [string, object, string] => [
      `the token ${path}`,
      { issuer: 'https://idp.example', bearerTokenFile: path },
      '/incomingAuth/oidc/bearerTokenFile',
    ],
  ),
  ...['https://evil.example', 'https://kubernetes.default.svc.evil.example', 'http://kubernetes.default.svc'].map(
    (apiServer): [string, object, string] => [
      `the API server ${apiServer}`,
      { cluster: { apiServer, tokenFile: 'token' } },
      '/incomingAuth/oidc/cluster/apiServer',
    ],
  ),
  [
    'keys beside the API server',
    { cluster: { tokenFile: 'token' }, jwksUrl: 'https://evil.example/keys' },
    '/incomingAuth/oidc/jwksUrl',
  ],
  [
    'two tokens',
    { cluster: { tokenFile: 'token' }, bearerTokenFile: `${JWKS}/a` },
    '/incomingAuth/oidc/bearerTokenFile',
  ],
  [
    'half a client',
    { issuer: 'https://idp.example', introspection: { clientId: 'us' } },
    '/incomingAuth/oidc/introspection',
  ],
]
const parse = configParser(gatewayConfigSchema, checkGateway)
const buildConfig = (oidc: object): GatewayConfig =>
  parse(
    JSON.stringify({
      name: 'g',
      namespace: 'n',
      role: 'gateway',
      incomingAuth: { type: 'oidc', oidc: { audience: 'a', ...oidc } },
      backends: [],
    }),
  )
for (const [what, oidc, says] of refused)
  test(`a configuration file with ${what} is refused`, () => {
    try {
      buildConfig(oidc)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, ConfigError)
      assert.ok(
        (error as ConfigError).findings.some(({ pointer }) => pointer === says),
        (error as ConfigError).message,
      )
    }
  })

test('a configuration file with the cluster’s API server or a mounted token is accepted', () => {
  buildConfig({ cluster: { tokenFile: '../cluster/token' } })
  buildConfig({
    cluster: { apiServer: 'https://kubernetes.default.svc.cluster.local', tokenFile: 't' },
    jwksUrl: 'https://kubernetes.default.svc.cluster.local/openid/v1/jwks',
  })
  buildConfig({ issuer: 'https://idp.example', bearerTokenFile: `${JWKS}/idp/token` })
})

test.run()
