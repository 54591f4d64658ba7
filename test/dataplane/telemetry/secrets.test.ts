/**
 * Runs a gateway and a registry with secrets of every kind, at the most verbose log level, through every failure: no
 * log, span, metric, audit log or `/status` may contain a secret. test/secrets searches logs, exports, scrapes and
 * audit files when the file has ended, so this file checks that they contain the expected data.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { outputWatch, secret } from '../../secrets/watch.ts'
import { AuditFile } from '../../support/audit/audit-file.ts'
import { eventually } from '../../support/eventually.ts'
import { buildInjectingBackend } from '../../support/gateway/login-gateway.ts'
import { openSession, post, postModern, rpc } from '../../support/gateway/post.ts'
import { readTokens, refusal, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { enterKey, keyLinkIn } from '../../support/identity/key-entry.ts'
import { Prover } from '../../support/identity/prover.ts'
import { type IdentityProvider, startIdentityProvider } from '../../support/network/identity-provider.ts'
import { buildConfig, registryFile, registryFolder, runRegistry, server } from '../../support/registry/registry.ts'
import { answer, type RawServer, startRawServer, tool } from '../../support/servers/raw-server.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { scrape } from '../../support/telemetry/prometheus-text.ts'

const AUDIENCE = 'https://registry.example'
const makeSecret = () => secret(randomBytes(24).toString('base64url'))
const watch = outputWatch('status')

let receiver: OtlpReceiver
let file: AuditFile
let idp: IdentityProvider

test.before(async () => {
  receiver = await startOtlpReceiver()
  file = await AuditFile.create()
  idp = await startIdentityProvider()
})
test.after(async () => {
  await Promise.all([receiver.close(), file.remove(), idp.close()])
})
test.before.each(() => {
  receiver.spans.length = 0
  file.skip()
})

const telemetry = () => ({
  prometheus: { enabled: true },
  openTelemetry: {
    enabled: true,
    endpoint: receiver.url,
    insecure: true,
    sensitiveHeaders: [{ name: 'Authorization', file: 'export-key' }],
    tracing: { enabled: true, samplingRate: '1.0' },
    metrics: { enabled: true },
  },
})
const audit = () => ({ enabled: true, logFile: file.path, includeRequestData: true, includeResponseData: true })

/** Starts a server that repeats what it was sent, in results, errors and refusals. */
const startTelltale = (): Promise<RawServer> =>
  startRawServer({
    era: 'both',
    tools: [tool('good'), tool('bad'), tool('broken')],
    call(request, response) {
      const headers = JSON.stringify(JSON.stringify(request.headers))
      const name = request.message.params?.['name']
      if (name === 'broken') {
        response.writeHead(500, { 'content-type': 'text/plain' }).end(headers)
        return undefined
      }
      if (name === 'bad')
        return `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32000,"message":${headers}}}`
      return answer(
        request,
        `{"resultType":"complete","content":[],"structuredContent":${JSON.stringify(request.headers)}}`,
      )
    },
  })

/** Checks that a log has lines of all levels and these messages, so that the search is meaningful. */
function assertTold(lines: readonly Record<string, unknown>[], ...messages: readonly RegExp[]): void {
  assert.ok(lines.some(({ level }) => level === 'debug'))
  for (const message of messages)
    assert.ok(
      lines.some((line) => message.test(String(line['msg']))),
      String(message),
    )
}

test('a gateway: its logins, its backends’ credentials, what callers send, and what backends make of it', async () => {
  const backend = await startTelltale()
  const gatewayServer = await startAuthServer({
    providers: ['corp', 'github'],
    authServer: {
      insecureAllowConfidentialOverLoopbackHTTP: true,
      hmacSecretFiles: ['hmac'],
      delegateClients: [
        { clientId: 'agent', clientSecretFile: 'agent', audiences: ['https://a'], scopes: ['tools:call'] },
      ],
    },
    gateway: {
      backends: [
        buildInjectingBackend('hub', backend.url),
        {
          name: 'keyed',
          url: `${backend.url}?api_key=${makeSecret()}`,
          headerFiles: [{ name: 'x-api-key', file: 'key' }],
        },
      ],
      telemetry: telemetry(),
      audit: audit(),
    },
    async prepare(folder) {
      for (const name of ['hmac', 'agent', 'key', 'export-key']) await writeFile(join(folder, name), makeSecret())
    },
  })
  const { gateway } = gatewayServer
  const client = await TestClient.register(gatewayServer.issuer)
  const { access_token, refresh_token } = await client.login({ resource: gatewayServer.resource })
  await readTokens(await client.refresh(refresh_token))
  const wrong = new TestClient(gatewayServer.issuer, 'agent')
  wrong.secret = makeSecret()
  assert.is(await refusal(wrong.refresh(refresh_token)), '401 invalid_client')
  assert.is(await refusal(client.exchange(makeSecret())), '400 invalid_grant')
  await client.agent.get(`${gatewayServer.issuer}/oauth/callback?state=${makeSecret()}&code=${makeSecret()}`)
  await client.agent.get(`${gatewayServer.issuer}/oauth/authorize?client_id=${client.id}&redirect_uri=${makeSecret()}`)

  const headers = {
    authorization: `Bearer ${access_token}`,
    cookie: `portico-login=${makeSecret()}`,
    'user-agent': `odd Bearer ${makeSecret()}`,
  }
  const args = { password: makeSecret(), deep: [{ accessToken: makeSecret() }], text: `Bearer ${makeSecret()}` }
  for (const name of ['hub_good', 'hub_bad', 'hub_broken', 'keyed_good', 'keyed_broken', 'none'])
    await postModern(gateway.url, 'tools/call', { name, arguments: args }, headers)
  const session = await openSession(gateway.url, headers)
  for (const name of ['hub_good', 'keyed_broken'])
    await post(`${gateway.url}?token=${makeSecret()}`, rpc('tools/call', { name, arguments: args }), session)
  for (const token of [makeSecret(), `${access_token}x`, await idp.mint({ sub: 'eve' })])
    await postModern(gateway.url, 'tools/list', {}, { authorization: `Bearer ${secret(token)}` })
  await post(gateway.url, `{"password":"${makeSecret()}"`, headers)

  await receiver.received(30)
  await eventually('events', () => file.all.length > 20)
  watch(JSON.stringify(await gateway.status()))
  assert.ok((await scrape(gateway.adminUrl)).samples.length > 0)
  assertTold(gateway.lines, /call failed/, /refused/)
  await eventually('a request and its response', () =>
    file.all.some(({ data }) => data?.request?.includes('[redacted]') && data.response?.includes('[redacted]')),
  )
  await eventually('the header of a caller', () =>
    receiver.spans.some(({ attributes }) => attributes['user_agent.original'] === 'odd [redacted]'),
  )
  await gatewayServer.close()
  await backend.close()
})

test('keys of users, assertions, proofs and assertions of clients, taken and refused', async () => {
  const backend = await startTelltale()
  const key = { title: 'Key', pattern: '[\\w-]+', headerName: 'X-Own-Key', valueTemplate: 'Key {key}' }
  const [agent, robot] = [await Prover.create(), await Prover.create()]
  const server = await startAuthServer({
    authServer: { hmacSecretFiles: ['hmac'], dpop: { mode: 'optional' } },
    gateway: { backends: [buildInjectingBackend('own', backend.url, 'corp')], telemetry: telemetry(), audit: audit() },
    async prepare(folder) {
      for (const name of ['hmac', 'export-key']) await writeFile(join(folder, name), makeSecret())
      await writeFile(join(folder, 'robot.json'), JSON.stringify({ keys: [robot.publicJwk] }))
    },
  })
  const { gateway, issuer, resource } = server
  const plain = server.config()
  const before = (await gateway.status()).config
  await gateway.configure(
    server.config(
      {
        upstreamProviders: [
          ...(plain.authServer?.upstreamProviders ?? []),
          { name: 'own', type: 'key', keyConfig: key },
        ],
        trustedIssuers: [{ issuerUrl: idp.issuer, name: 'idp' }],
        inboundGrants: {
          jwtBearer: {
            issuerPolicies: [
              {
                issuerRef: 'idp',
                maxAssertionAge: '5m',
                subjectRules: [{ name: 'all', matcher: 'claims.sub.contains("ci")', allowedResources: [resource] }],
              },
            ],
          },
          clientCredentials: {
            clients: [
              { clientId: 'robot', jwksFile: 'robot.json', allowedResources: [resource], scopes: ['tools:call'] },
            ],
          },
        },
      } as never,
      { backends: [buildInjectingBackend('own', backend.url, 'own')] },
    ),
  )
  await eventually('the configuration', async () => (await gateway.status()).config !== before)
  const bodies: string[] = []
  const client = await TestClient.register(issuer)
  /** Requests a token and returns it. The answers to refused requests are searched, too. */
  async function ask(
    fields: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<string | undefined> {
    const answer = await client.post('token', fields, headers)
    const text = await answer.text()
    if (!answer.ok) bodies.push(text)
    return (JSON.parse(text) as { access_token?: string }).access_token
  }
  // A proof works once; an invalid one is refused.
  const tokenUrl = `${issuer}/oauth/token`
  const { refresh_token, access_token } = await client.login()
  const refresh = { grant_type: 'refresh_token', refresh_token, client_id: client.id }
  const proof = secret(await agent.prove('POST', tokenUrl))
  assert.ok(await ask(refresh, { dpop: proof }))
  assert.is(await ask(refresh, { dpop: proof }), undefined)
  assert.is(await ask(refresh, { dpop: secret(`${proof}${makeSecret()}`) }), undefined)
  // An assertion with a confidential claim.
  const claims = { sub: 'ci', aud: issuer, jti: makeSecret(), password: makeSecret(), client_secret: makeSecret() }
  const assertion = secret(await idp.mint(claims, { expiresIn: 120 }))
  const bearer = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion, resource }
  assert.ok(await ask(bearer))
  assert.is(await ask(bearer), undefined)
  const stranger = secret(await idp.mint({ ...claims, sub: 'stranger', jti: makeSecret() }, { expiresIn: 120 }))
  assert.is(await ask({ ...bearer, assertion: stranger }), undefined)
  assert.is(await ask({ ...bearer, assertion: secret(`${assertion.slice(0, -20)}${makeSecret()}`) }), undefined)
  // A client authenticates with its key.
  const now = Math.floor(Date.now() / 1000)
  const signed = secret(
    await new SignJWT({ iss: 'robot', sub: 'robot', aud: issuer, jti: makeSecret(), exp: now + 60 })
      .setProtectedHeader({ alg: robot.alg })
      .sign(robot.privateKey),
  )
  const type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
  const machine = { grant_type: 'client_credentials', resource, client_assertion_type: type, client_assertion: signed }
  assert.ok(await ask(machine))
  assert.is(await ask(machine), undefined)
  assert.is(await ask({ ...machine, client_assertion: secret(`${signed}${makeSecret()}`) }), undefined)
  // A user's key: entered, sent to a server that repeats it, and refused if it does not match.
  const headers = { authorization: `Bearer ${access_token}` }
  const call = (name: string) => postModern(gateway.url, 'tools/call', { name, arguments: { text: 'x' } }, headers)
  const link = keyLinkIn(await call('own_good'))
  const page = await enterKey(client.agent, link, `no key ${makeSecret()}`)
  assert.not.ok(page.text.includes('X-Own-Key'))
  bodies.push(page.text, (await enterKey(client.agent, link, makeSecret())).text)
  for (const name of ['own_good', 'own_bad', 'own_broken']) await call(name)
  assert.ok(
    backend.seen.some((request) => String(request.headers['x-own-key']).startsWith('Key ')),
    'the key was sent',
  )

  await receiver.received(10)
  await eventually('events', () => file.all.length > 10)
  bodies.push(JSON.stringify(await gateway.status()))
  for (const body of bodies) watch(body)
  assert.ok((await scrape(gateway.adminUrl)).samples.length > 0)
  assert.ok(bodies.length > 8)
  await server.close()
  await backend.close()
})

test('a registry: credentials of its sources, tokens of its callers, and what they publish', async () => {
  const folder = await registryFolder()
  const api = { endpoint: 'http://127.0.0.1:1', headersFile: 'headers' }
  for (const [name, text] of Object.entries({
    headers: `Authorization: Bearer ${makeSecret()}\nX-Key: ${makeSecret()}`,
    password: makeSecret(),
    'export-key': makeSecret(),
  }))
    await writeFile(join(folder.directory, 'config', name), text)
  await folder.write('own.json', registryFile([server('com.acme/own')]))
  const { sources, ...rest } = buildConfig({ own: 'own.json' })
  const git = { repository: 'http://127.0.0.1:1/r.git', auth: { username: 'u', passwordFile: 'password' } }
  await folder.configure({
    ...rest,
    sources: [...sources, { name: 'api', api }, { name: 'git', git }, { name: 'managed', managed: {} }],
    auth: { mode: 'oauth', oauth: { providers: [{ name: 'idp', issuerUrl: idp.issuer, audience: AUDIENCE }] } },
    telemetry: { ...telemetry(), serviceName: 'catalog' },
    audit: audit(),
  })
  const registry = await runRegistry(folder)
  await eventually('two sources fail', async () => {
    const failed = (await registry.status()).sources.filter(({ error }) => error !== null)
    return failed.length === 2
  })
  const authorization = `Bearer ${secret(await idp.mint({ sub: 'alice', aud: AUDIENCE }))}`
  const ask = (path: string, body?: string) =>
    fetch(`${registry.url}${path}`, {
      method: body === undefined ? 'GET' : 'PUT',
      headers: { authorization, 'content-type': 'application/json', 'user-agent': `odd Bearer ${makeSecret()}` },
      ...(body !== undefined && { body }),
    })
  assert.is((await ask(`/registry/main/v0.1/servers?key=${makeSecret()}`)).status, 200)
  const url = `http://u:${makeSecret()}@127.0.0.1:1/?key=${makeSecret()}`
  for (const body of [`{"api":{"endpoint":"${url}"},"token":"${makeSecret()}"}`, `{"password":"${makeSecret()}"`, '[]'])
    await ask('/v1/sources/more', body)
  for (const token of [makeSecret(), `${authorization.slice(7)}x`])
    await registry.get('/servers', { authorization: `Bearer ${secret(token)}` })

  await eventually('spans', () => receiver.spans.filter(({ kind }) => kind === 2).length >= 4)
  await eventually('events', () => file.all.some(({ type }) => type === 'authentication_failed'))
  watch(JSON.stringify(await registry.status()))
  watch(registry.log.text())
  assert.ok((await scrape(registry.adminUrl)).samples.length > 0)
  assertTold(registry.log.lines, /the sync failed/)
  await registry.close()
})

test.run()
