/**
 * Tests clients whose id is the URL of their metadata document: which documents are accepted and fetched, and how much
 * work strangers can cause.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { hostname } from 'node:os'
import tls from 'node:tls'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import { pino } from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  ClientDocuments,
  isDocumentUrl,
  readDocument,
} from '../../../../dataplane/authserver/clients/client-documents.ts'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  SCOPES,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { loginProvider } from '../../../support/identity/sdk-login.ts'
import { UserAgent } from '../../../support/identity/user-agent.ts'
import { type Authority, createAuthority } from '../../../support/network/certificates.ts'
import { stoppedClock } from '../../../support/stopped-clock.ts'
import { unwrap } from '../../../support/unwrap.ts'

import { findButton, SessionsPage } from '../sessions/pages.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, id: string) => void

/** Documents on loopback: tests set each path's answer, and requests are counted. */
const answers = new Map<string, Answer>()
const requests = new Map<string, number>()
const ends: (() => unknown)[] = []
const WITH_DOCUMENTS = { authServer: { cimd: { enabled: true, cacheMaxSize: 50 } } }
let server: AuthServerUnderTest
let authority: Authority
let plain: string
let secure: string

function serve(request: IncomingMessage, response: ServerResponse, origin: string): void {
  const path = request.url ?? ''
  requests.set(path, (requests.get(path) ?? 0) + 1)
  const answer = answers.get(path)
  if (answer === undefined) response.writeHead(404).end()
  else answer(request, response, origin + path)
}

const json =
  (changes: object = {}, headers: Record<string, string> = {}): Answer =>
  (_request, response, id) => {
    const document = { client_id: id, client_name: 'Acme Editor', redirect_uris: [REDIRECT], ...changes }
    response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document))
  }

test.before(async () => {
  authority = await createAuthority()
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), authority.ca])
  const startListening = async (one: ReturnType<typeof createServer>): Promise<number> => {
    await new Promise<void>((resolve) => one.listen(0, '127.0.0.1', resolve))
    ends.push(() => {
      one.closeAllConnections()
      one.close()
    })
    return (one.address() as AddressInfo).port
  }
  const http = createServer((request, response) => serve(request, response, plain))
  plain = `http://127.0.0.1:${await startListening(http)}`
  const { cert, key } = authority
  const https = createSecureServer({ cert, key }, (request, response) => serve(request, response, secure))
  secure = `https://localhost:${await startListening(https)}`
  server = await startAuthServer(WITH_DOCUMENTS)
})
test.after(async () => {
  for (const end of ends) await end()
  await server?.close()
  await authority?.remove()
})
test.before.each(() => {
  answers.clear()
  requests.clear()
})

const isAccepted = async (token: string) =>
  (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status === 200

test('a client with a metadata document logs in without registering, and consent names its host', async () => {
  answers.set('/flow.json', json({ grant_types: ['authorization_code', 'refresh_token', 'urn:of:another:server'] }))
  const client = new TestClient(server.issuer, `${plain}/flow.json`)
  const tokens = await client.login()
  assert.is(decodeJwt(tokens.access_token)['client_id'], client.id)
  assert.ok(await isAccepted(tokens.access_token))
  const refreshed = await readTokens(await client.refresh(tokens.refresh_token))
  assert.ok(await isAccepted(refreshed.access_token))
  assert.is(requests.get('/flow.json'), 1)
  assert.is(client.agent.questions.length, 1)
  const [page = ''] = client.agent.questions
  assert.match(page, new URL(plain).host)
  assert.match(page, 'It is known by its address at')
  assert.match(page, 'Any program on this computer can call itself')
  await client.login()
  assert.is(client.agent.questions.length, 2)
  assert.is((await client.post('revoke', { client_id: client.id, token: refreshed.refresh_token })).status, 200)
  assert.not(await isAccepted(refreshed.access_token))
})

const SITE = 'https://editor.example.com/cb'

for (const [what, changed] of [
  ['is gone', (_request, response) => void response.writeHead(404).end()],
  ['is away', (_request, response) => void response.writeHead(503).end()],
  [
    'names another redirect URI',
    json({ redirect_uris: ['https://editor.example.com/new'] }, { 'cache-control': 'no-store' }),
  ],
] as const satisfies readonly (readonly [string, Answer])[])
  test(`a user is asked again for a revoked consent, although the document ${what} at that moment`, async () => {
    const path = `/revoked-${what.replaceAll(' ', '-')}.json`
    const whole = json({ redirect_uris: [SITE] }, { 'cache-control': 'no-store' })
    answers.set(path, whole)
    const agent = new UserAgent()
    const logIn = async () => {
      const client = new TestClient(server.issuer, `${plain}${path}`)
      const { url } = await agent.follow(client.authorizeUrl({ redirect_uri: SITE }), (at) => at.startsWith(SITE))
      return readTokens(await client.exchange(new URL(url).searchParams.get('code') ?? '', { redirect_uri: SITE }))
    }
    await logIn()
    await logIn()
    assert.is(agent.questions.length, 1)
    answers.set(path, changed)
    // In another browser: the grants of a user are one list.
    const page = SessionsPage.of(server, new UserAgent())
    const { token } = await page.signIn()
    assert.match((await page.send({ token, action: 'revoke-all' })).text, 'All access is revoked.')
    answers.set(path, whole)
    await eventually('the document is read again', () =>
      logIn().then(
        () => true,
        () => false,
      ),
    )
    assert.is(agent.questions.length, 2)
    const own = SessionsPage.of(server, agent)
    const listed = await own.signIn()
    answers.set(path, changed)
    const after = await own.send({ token: listed.token, ...findButton(listed, 'Revoke ') })
    assert.match(after.text, 'Access is revoked.')
    answers.set(path, whole)
    await eventually('the document is read again', () =>
      logIn().then(
        () => true,
        () => false,
      ),
    )
    assert.is(agent.questions.length, 3)
  })

test('the metadata announces metadata documents only if they are on', async () => {
  const read = async (issuer: string) =>
    (await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json()) as Record<string, unknown>
  assert.is((await read(server.issuer))['client_id_metadata_document_supported'], true)
  const other = await startAuthServer({ authServer: { cimd: { enabled: false } } })
  try {
    assert.not('client_id_metadata_document_supported' in (await read(other.issuer)))
    answers.set('/off.json', json())
    const client = new TestClient(other.issuer, `${plain}/off.json`)
    assert.is((await client.agent.get(client.authorizeUrl())).status, 400)
    assert.is(requests.get('/off.json'), undefined)
  } finally {
    await other.close()
  }
})

test('once metadata documents are off, their clients are out, with the tokens that they have', async () => {
  answers.set('/out.json', json())
  const client = new TestClient(server.issuer, `${plain}/out.json`)
  const other = await TestClient.register(server.issuer)
  const [tokens, others] = [await client.login(), await other.login()]
  assert.ok((await isAccepted(tokens.access_token)) && (await isAccepted(others.access_token)))
  const use = async (enabled: boolean) => {
    await server.gateway.configure(server.config({ cimd: { ...WITH_DOCUMENTS.authServer.cimd, enabled } }))
    await eventually('the new configuration', async () => {
      const answered = await fetch(`${server.issuer}/.well-known/oauth-authorization-server`)
      const found = (await answered.json()) as { client_id_metadata_document_supported?: boolean }
      return (found.client_id_metadata_document_supported === true) === enabled
    })
  }
  await use(false)
  assert.equal([await isAccepted(tokens.access_token), await isAccepted(others.access_token)], [false, true])
  assert.is(await refusal(client.refresh(tokens.refresh_token)), '401 invalid_client')
  await use(true)
  assert.ok(await isAccepted(tokens.access_token))
})

test('SDK 2 prefers its document to registering', async () => {
  answers.set('/sdk.json', json({ redirect_uris: ['http://localhost:43211/callback'] }))
  const { stored, ...own } = loginProvider('http://localhost:43211/callback')
  const provider = { ...own, clientMetadataUrl: `${secure}/sdk.json` }
  const open = () => new StreamableHTTPClientTransport(new URL(server.gateway.url), { authProvider: provider })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  const first = open()
  await client.connect(first).catch(() => undefined)
  await first.finishAuth(unwrap(stored.answer))
  await client.connect(open())
  await client.close()
  assert.is(decodeJwt(unwrap(stored.tokens).access_token)['client_id'], `${secure}/sdk.json`)
  assert.is(requests.get('/sdk.json'), 1)
})

test('openid-client completes the whole flow', async () => {
  // Few documents are fetched at a time from one address, and the earlier tests have fetched many.
  const own = await startAuthServer(WITH_DOCUMENTS)
  ends.push(() => own.close())
  answers.set('/strict.json', json({ scope: 'openid tools:call of-another-server' }))
  const id = `${secure}/strict.json`
  const config = await openid.discovery(new URL(own.issuer), id, undefined, openid.None(), {
    execute: [openid.allowInsecureRequests],
  })
  const pkceCodeVerifier = secret(openid.randomPKCECodeVerifier())
  const expectedState = openid.randomState()
  const url = openid.buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid tools:call',
    resource: own.resource,
    state: expectedState,
    code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  })
  const end = await new UserAgent().follow(url.href, (at) => at.startsWith(REDIRECT))
  secret(new URL(end.url).searchParams.get('code') as string)
  const tokens = await openid.authorizationCodeGrant(config, new URL(end.url), { pkceCodeVerifier, expectedState })
  for (const token of [tokens.access_token, tokens.refresh_token, tokens.id_token]) secret(token as string)
  assert.is((await openid.tokenIntrospection(config, tokens.access_token)).active, true)
})

test('an invalid document makes no client, and is not fetched again', async () => {
  const other = (path: string) => json({ client_id: `${plain}${path}` })
  const wrong: Record<string, Answer> = {
    type: json({}, { 'content-type': 'text/html' }),
    missing: (_request, response) => response.writeHead(404).end(),
    redirect: (_request, response) => response.writeHead(302, { location: `${plain}/ok.json` }).end(),
    id: other('/another.json'),
    'id-of-a-list': json({ client_id: [`${plain}/id-of-a-list`] }),
    'no-redirects': json({ redirect_uris: [] }),
    'one-text': json({ redirect_uris: REDIRECT }),
    many: json({ redirect_uris: Array.from({ length: 11 }, (_, index) => `https://a.example/${index}`) }),
    ftp: json({ redirect_uris: [REDIRECT, 'ftp://a.example/cb'] }),
    'plain-http': json({ redirect_uris: [REDIRECT, 'http://a.example/cb'] }),
    'own-scheme': json({ redirect_uris: [REDIRECT, 'cursor://cb'] }),
    script: json({ redirect_uris: [REDIRECT, 'javascript:alert(1)'] }),
    fragment: json({ redirect_uris: [`${REDIRECT}#x`] }),
    key: json({ token_endpoint_auth_method: 'private_key_jwt' }),
    basic: json({ token_endpoint_auth_method: 'client_secret_basic' }),
    secret: json({ client_secret: 'x' }),
    grants: json({ grant_types: ['client_credentials'] }),
    types: json({ response_types: ['token'] }),
    list: (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('[]'),
    rubbish: (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":'),
    deep: (_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('['.repeat(5_000) + ']'.repeat(5_000)),
    prototype: (_request, response, id) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(`{"__proto__":{"client_id":"${id}"}}`),
  }
  answers.set('/ok.json', json())
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: true, forceConfidential: [REDIRECT] }
  const documents = () => new ClientDocuments({ config: { enabled: true }, rules, isLocal: true, log: () => log })
  for (const [name, answer] of Object.entries(wrong)) {
    const path = `/${name}`
    answers.set(path, answer)
    const own = documents()
    assert.is(await own.find(plain + path, '192.0.2.1'), undefined, name)
    assert.is(await own.find(plain + path, '192.0.2.1'), undefined, name)
    assert.is(requests.get(path), 1, name)
  }
  assert.is(requests.get('/ok.json'), undefined)
  answers.set('/subtype', json({}, { 'content-type': 'Application/Client-Metadata+JSON; charset=utf-8' }))
  assert.is((await documents().find(`${plain}/subtype`, ''))?.token_endpoint_auth_method, 'none')
})

test('a host that is slow, silent or broken, or sends too much, gives no client and is not called for a while', async () => {
  using _clock = stoppedClock()
  const broken: Record<string, Answer> = {
    huge: (_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(`"${'x'.repeat(11_000)}"`),
    endless(_request, response) {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write('x'.repeat(4_096)), 5)
      response.on('close', () => clearInterval(timer))
    },
    dripping(_request, response) {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write(' '), 100)
      response.on('close', () => clearInterval(timer))
    },
    error: (_request, response) => response.writeHead(500).end(),
    busy: (_request, response) => response.writeHead(429).end(),
    cut: (request) => request.socket.destroy(),
    silent: () => undefined,
  }
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const documents = new ClientDocuments({ config: { enabled: true }, rules, isLocal: true, log: () => log })
  await Promise.all(
    Object.entries(broken).map(async ([name, answer], index) => {
      answers.set(`/${name}`, answer)
      const ask = () =>
        documents.find(`${plain}/${name}`, `192.0.2.${index}`).then(
          () => 'found',
          ({ code }) => code,
        )
      assert.is(await ask(), 'unavailable', name)
      assert.is(await ask(), 'unavailable', name)
      assert.is(requests.get(`/${name}`), 1, name)
    }),
  )
})

test('a caller who names many addresses is stopped; many callers who name one cause one fetch', async () => {
  using _clock = stoppedClock()
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const documents = new ClientDocuments({ config: { enabled: true }, rules, isLocal: true, log: () => log })
  const found: string[] = []
  for (let index = 0; index < 12; index++) {
    answers.set(`/many/${index}`, json())
    await documents.find(`${plain}/many/${index}`, '2001:db8::1').then(
      () => found.push('found'),
      ({ code }) => found.push(code),
    )
  }
  assert.equal(found, [...Array(5).fill('found'), ...Array(7).fill('unavailable')])
  assert.ok(await documents.find(`${plain}/many/0`, '2001:db8::2'))
  answers.set('/one', (...request) => void setTimeout(() => json()(...request), 50))
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, index) => documents.find(`${plain}/one`, `10.0.0.${index}`)),
  )
  assert.is(new Set(all).size, 1)
  assert.is(requests.get('/one'), 1)
})

test('a caller who names many documents evicts none of other callers', async () => {
  using clock = stoppedClock()
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const config = { enabled: true, cacheMaxSize: 10, cacheFallbackTtl: '1h' }
  const documents = new ClientDocuments({ config, rules, isLocal: true, log: () => log })
  for (const path of ['/theirs', '/theirs-too']) answers.set(path, json())
  assert.ok(await documents.find(`${plain}/theirs`, '198.51.100.1'))
  for (let index = 0; index < 30; index++) {
    clock.pass(1_000)
    answers.set(`/flood/${index}`, json())
    assert.ok(await documents.find(`${plain}/flood/${index}`, '192.0.2.1'))
  }
  assert.ok(await documents.find(`${plain}/theirs-too`, '198.51.100.2'))
  for (const path of ['/theirs', '/theirs-too']) {
    answers.delete(path)
    assert.ok(await documents.find(plain + path, '203.0.113.1'), path)
    assert.is(requests.get(path), 1, path)
  }
})

test('remembering documents that do not exist takes no memory', () => {
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const before = process.memoryUsage().rss
  for (const cacheMaxSize of [1, 2_147_483_647])
    assert.ok(new ClientDocuments({ config: { enabled: true, cacheMaxSize }, rules, isLocal: true, log: () => log }))
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
})

test('a document is cached as long as it says, within bounds, and stays in use while its host is down', async () => {
  using clock = stoppedClock()
  const log = pino({ level: 'silent' })
  const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const config = { enabled: true, cacheFallbackTtl: '1ms', cacheMaxSize: 2 }
  const documents = new ClientDocuments({ config, rules, isLocal: true, log: () => log })
  let address = 0
  const find = (path: string) => documents.find(plain + path, `10.1.0.${address++}`)
  answers.set('/short', json({}, { 'cache-control': 'public, max-age=0' }))
  answers.set('/none', json({}, { 'cache-control': 'no-store' }))
  for (const path of ['/short', '/none']) {
    await find(path)
    await find(path)
    assert.is(requests.get(path), 1, path)
  }
  answers.set('/usual', json())
  await find('/usual')
  clock.pass(5)
  await find('/usual')
  assert.is(requests.get('/usual'), 2)
  // Two are kept: the first of the three is fetched again.
  await find('/short')
  assert.is(requests.get('/short'), 2)
  await find('/usual')
  answers.set('/usual', (_request, response) => response.writeHead(503).end())
  clock.pass(5)
  assert.ok(await find('/usual'))
  assert.ok(await find('/usual'))
})

test('internal addresses are not called, however they are written', async () => {
  const connections: string[] = []
  const listener = createTcpServer((socket) => {
    connections.push(String(socket.remoteAddress))
    socket.destroy()
  })
  await new Promise<void>((resolve) => listener.listen(0, resolve))
  const { port } = listener.address() as AddressInfo
  try {
    const log = pino({ level: 'silent' })
    const rules = { scopes: SCOPES, baselineScopes: [], allowConfidential: false, forceConfidential: [] }
    const documents = new ClientDocuments({ config: { enabled: true }, rules, isLocal: false, log: () => log })
    const hosts = ['127.0.0.1', 'localhost', 'x.localhost', hostname(), '[::1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]']
    const reserved = ['10.0.0.1', '169.254.169.254', '[fd00:ec2::254]', '100.100.100.200', '[fe80::1]', '0.0.0.0']
    for (const [index, host] of [...hosts, ...reserved].entries()) {
      const id = `https://${host.toLowerCase()}:${port}/client.json`
      assert.ok(documents.accepts(id), id)
      const code = await documents.find(id, `10.2.0.${index}`).then(
        () => 'found',
        (error) => error.code,
      )
      assert.is(code, 'unavailable', id)
    }
    assert.equal(connections, [])
    assert.not(documents.accepts(`http://127.0.0.1:${port}/client.json`))
  } finally {
    listener.close()
  }
})

test('client ids that are no plain https URL of a document are refused', () => {
  for (const id of [
    'https://client.example/a',
    'https://client.example/a/b.json?x=1',
    'https://client.example:8443/a',
    'https://xn--bcher-kva.example/a',
  ])
    assert.ok(isDocumentUrl(id, false), id)
  for (const id of [
    'https://client.example',
    'https://client.example/',
    'https://client.example/?a',
    'https://client.example/a#b',
    'https://client.example/a#',
    'https://me@client.example/a',
    'https://@client.example/a',
    'https://client.example/a/../b',
    'https://client.example/a/%2e%2E/b',
    'https://client.example/./a',
    'https://client.example:443/a',
    'https://Client.example/a',
    'HTTPS://client.example/a',
    'https:/client.example/a',
    'https:\\\\client.example\\a',
    'https://bücher.example/a',
    'https://client.example/a b',
    'https://127.1/a',
    'http://client.example/a',
    'ftp://client.example/a',
    'javascript:alert(1)',
    `https://client.example/${'a'.repeat(2_000)}`,
    'AAAAAAAAAAAAAAAAAAAAAA',
    '',
  ])
    assert.not(isDocumentUrl(id, false), id)
  assert.ok(isDocumentUrl('http://127.0.0.1:80a/x'.replace('80a', '8080'), true))
  for (const id of ['http://localhost.evil.example/a', 'http://127.0.0.1.evil.example/a', 'http://127.0.0.2/a'])
    assert.not(isDocumentUrl(id, true), id)
})

test('unknown members and scopes of a document are left out', () => {
  const rules = {
    scopes: ['openid', 'tools:call'],
    baselineScopes: [],
    allowConfidential: false,
    forceConfidential: [],
  }
  const id = 'https://client.example/a'
  const read = (more: object) => readDocument({ client_id: id, redirect_uris: [REDIRECT], ...more }, id, rules)
  assert.is(read({ client_name: 'Café \u202E' }).client_name, undefined)
  assert.is(read({ client_name: ['x'] }).client_name, undefined)
  assert.is(read({ scope: 'tools:call other' }).scope, 'tools:call')
  assert.is(read({ scope: 'other' }).scope, 'openid tools:call')
  assert.is(read({ scope: { a: 1 } }).scope, 'openid tools:call')
  assert.is(read({}).application_type, 'web')
})

test('a client that names another client’s document can only use that client’s redirect URIs', async () => {
  answers.set('/victim.json', json())
  const client = new TestClient(server.issuer, `${plain}/victim.json`)
  const url = client.authorizeUrl({ redirect_uri: 'https://evil.example/cb' })
  const answer = await client.agent.get(url)
  assert.is(answer.status, 400)
  assert.is(answer.headers.get('location'), null)
  assert.is(
    await refusal(
      client.post('token', { grant_type: 'refresh_token', refresh_token: 'x', client_id: `${plain}/none` }),
    ),
    '401 invalid_client',
  )
})

test.run()
