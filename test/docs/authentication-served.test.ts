/**
 * Runs the manifests of docs/authentication.md as gateways, with servers on this machine instead of those that they
 * name. Tokens of ServiceAccounts are in test/cluster/api-server/cluster-issuer.ts.
 */
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../support/gateway/gateway.ts'
import { type LoginGateway, startLoginGateway } from '../support/gateway/login-gateway.ts'
import { postModern } from '../support/gateway/post.ts'
import { introspectionClient, startIdentityProvider } from '../support/network/identity-provider.ts'
import { startStsEndpoint } from '../support/network/sts-endpoint.ts'
import { buildExchanged, readSubject, respond, startTokenEndpoint } from '../support/network/token-endpoint.ts'
import { configText, plansOfText } from '../support/operator/plans.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../support/servers/raw-server.ts'

const docs = readFileSync(new URL('../../docs/authentication.md', import.meta.url), 'utf8')
const blocks = [...docs.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const GROUP = 'kind: MCPGroup\nmetadata: {name: tools}\n---\n'

/** Returns the one example that contains this text. */
function example(says: string): string {
  const [found = '', ...others] = blocks.filter((block) => block.includes(says))
  assert.ok(found !== '' && others.length === 0, says)
  return found
}

/** Returns the configuration of the example's gateway, with the values of `here` in place of those that it names. */
function parseConfig(block: string, here: Readonly<Record<string, string>> = {}, more = ''): TestConfig {
  let text = configText(plansOfText(GROUP + block + more).get('VirtualMCPServer/tools')).replaceAll('../', '')
  for (const [there, place] of Object.entries(here)) {
    assert.ok(text.includes(there), there)
    text = text.replaceAll(there, place)
  }
  const config = parse(text) as TestConfig
  // Servers of this machine have private addresses, which an entry may not have.
  return { ...config, backends: config.backends.map((backend) => ({ ...backend, allowPrivateIP: true })) }
}

/** Writes the example's Secrets to where they are mounted. */
const mount = (block: string) => async (directory: string) => {
  for (const document of parseAllDocuments(block)) {
    const { kind, metadata, stringData = {} } = document.toJS()
    if (kind !== 'Secret') continue
    for (const [key, value] of Object.entries(stringData as Record<string, string>)) {
      const file = join(directory, 'secrets', metadata.name, key)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, value)
    }
  }
}

const call = async ({ url }: GatewayUnderTest, backend: string, headers: Record<string, string> = {}) => {
  const { json } = await postModern(url, 'tools/call', { name: `${backend}_t` }, headers)
  assert.ok(json.result, JSON.stringify(json.error))
}
const startBackend = () => startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
const lastCall = (backend: RawServer) => backend.calls('tools/call').at(-1) as RawServer['seen'][number]

/** Serves the backends of an example to callers with tokens. */
async function startServed(block: string, config: TestConfig): Promise<LoginGateway> {
  return startLoginGateway({ backends: config.backends }, { prepare: mount(block) })
}

const listTools = async ({ url }: GatewayUnderTest, token?: string) =>
  await fetch(url, {
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}',
  })

test('anonymous: everybody is admitted', async () => {
  const gateway = await startGateway(parseConfig(blocks[0] ?? ''))
  assert.is((await listTools(gateway)).status, 200)
  await gateway.close()
})

test('oidc: tokens of the issuer for this audience and with the scope', async () => {
  const idp = await startIdentityProvider()
  const block = example('scopes: [openid, tools:call]')
  const gateway = await startGateway(parseConfig(block, { 'https://login.example.com/realms/corp': idp.issuer }))
  const aud = 'https://tools.example.com/mcp'
  const nobody = await listTools(gateway)
  assert.is(nobody.status, 401)
  assert.match(
    nobody.headers.get('www-authenticate') ?? '',
    'resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="openid tools:call"',
  )
  assert.is((await listTools(gateway, await idp.mint({ aud, scope: 'tools:call' }))).status, 200)
  assert.is((await listTools(gateway, await idp.mint({ aud, scope: 'openid' }))).status, 403)
  assert.is(
    (await listTools(gateway, await idp.mint({ aud: 'https://other.example', scope: 'tools:call' }))).status,
    401,
  )
  await Promise.all([gateway.close(), idp.close()])
})

test('oidc with introspection: opaque tokens, introspected by the gateway’s own client', async () => {
  const idp = await startIdentityProvider()
  const block = example('caBundleRef:')
  const config = parseConfig(block, {
    'https://login.corp.example': idp.issuer,
    'clientId: portico': `clientId: ${introspectionClient.id}`,
  })
  const gateway = await startGateway(config, async (directory) => {
    await mount(block.replace('from-the-provider', introspectionClient.secret))(directory)
    await mkdir(join(directory, 'ca/corp-ca'), { recursive: true })
    await writeFile(join(directory, 'ca/corp-ca/ca.crt'), rootCertificates[0] ?? '')
  })
  assert.is((await listTools(gateway, idp.grant({ aud: 'https://tools.corp.example/mcp' }))).status, 200)
  assert.is((await listTools(gateway, idp.grant({ aud: 'https://other.example' }))).status, 401)
  await Promise.all([gateway.close(), idp.close()])
})

test('headerInjection: the header with the value of the Secret', async () => {
  const backend = await startBackend()
  const block = example('type: headerInjection')
  const gateway = await startGateway(parseConfig(block, { 'https://docs.example.com/mcp': backend.url }), mount(block))
  await call(gateway, 'docs')
  assert.is(lastCall(backend).headers['x-api-key'], 'change-me')
  await Promise.all([gateway.close(), backend.close()])
})

test('bearerToken inline: only the listed backend gets the token', async () => {
  const [tracker, other] = await Promise.all([startBackend(), startBackend()])
  const entry = (name: string) =>
    `---\nkind: MCPServerEntry\nmetadata: {name: ${name}}\nspec: {remoteUrl: "https://${name}.example.com/mcp", transport: streamable-http, groupRef: {name: tools}}\n`
  const here = { 'https://tracker.example.com/mcp': tracker.url, 'https://other.example.com/mcp': other.url }
  const block = example('type: bearerToken')
  const gateway = await startGateway(parseConfig(block, here, entry('tracker') + entry('other')), mount(block))
  await Promise.all([call(gateway, 'tracker'), call(gateway, 'other')])
  assert.is(lastCall(tracker).headers.authorization, 'Bearer change-me')
  assert.is(lastCall(other).headers.authorization, undefined)
  await Promise.all([gateway.close(), tracker.close(), other.close()])
})

test('tokenExchange: the caller’s token goes to the token endpoint, and the issued one to the backend', async () => {
  const [backend, endpoint] = await Promise.all([startBackend(), startTokenEndpoint()])
  const block = example('type: tokenExchange')
  const gateway = await startServed(
    block,
    parseConfig(block, {
      'https://login.example.com/realms/corp/protocol/openid-connect/token': endpoint.url,
      'http://mcp-orders.default.svc.cluster.local:8080/mcp': backend.url,
    }),
  )
  await call(gateway, 'orders', await gateway.bearer('alice'))
  assert.match(lastCall(backend).headers.authorization ?? '', /^Bearer for-alice-at-orders-/)
  const exchange = endpoint.requests.find(({ form }) => form['subject_token'] !== undefined)
  assert.is(exchange?.form['scope'], 'orders.read')
  assert.is(exchange?.headers.authorization, `Basic ${Buffer.from('gateway:change-me').toString('base64')}`)
  await Promise.all([gateway.close(), backend.close(), endpoint.close()])
})

test('upstreamInject: the backend gets the token that the provider issued at login', async () => {
  const backend = await startBackend()
  const block = example('type: upstreamInject')
  const config = parseConfig(block, { 'https://wiki.example.com/mcp': backend.url })
  assert.is(config.authServer?.upstreamProviders?.[0]?.name, 'corp')
  const gateway = await startServed(block, config)
  await gateway.logIn({ subject: 'alice', login: 'login-1', provider: 'corp' }, 'what-the-provider-gave-alice')
  await call(gateway, 'wiki', await gateway.bearer('alice', 'login-1'))
  assert.is(lastCall(backend).headers.authorization, 'Bearer what-the-provider-gave-alice')
  await Promise.all([gateway.close(), backend.close()])
})

test('xaa: an assertion for the target, and the target’s token for the backend', async () => {
  const [backend, idp, target] = await Promise.all([startBackend(), startTokenEndpoint(), startTokenEndpoint()])
  idp.answer = async ({ form }, response) => {
    const claims = { sub: readSubject(form['subject_token']), aud: form['audience'], resource: form['resource'] }
    const assertion = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'oauth-id-jag+jwt' })
      .sign(Buffer.from('a key of the identity provider, 32B+'))
    const more = { issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag', token_type: 'N_A' }
    respond(response, 200, buildExchanged(assertion, more))
  }
  target.answer = ({ form }, response) =>
    respond(response, 200, buildExchanged(`of-${readSubject(form['assertion']) || 'the-gateway'}-at-the-target`))
  const block = example('type: xaa')
  const config = parseConfig(block, {
    'https://login.example.com/oauth2/token': idp.url,
    'https://auth.wiki.example.com/token': target.url,
    'url: https://wiki.example.com/mcp': `url: ${backend.url}`,
  })
  const gateway = await startServed(block, config)
  await call(gateway, 'wiki', await gateway.bearer('alice'))
  assert.is(lastCall(backend).headers.authorization, 'Bearer of-alice-at-the-target')
  assert.is(idp.requests[0]?.form['audience'], 'https://auth.wiki.example.com')
  assert.is(idp.requests[0]?.headers.authorization, `Basic ${Buffer.from('gateway:change-me').toString('base64')}`)
  await Promise.all([gateway.close(), backend.close(), idp.close(), target.close()])
})

test('awsSts: requests are signed with credentials of the role that the claims choose', async () => {
  const [backend, sts] = await Promise.all([startBackend(), startStsEndpoint()])
  const block = example('type: awsSts')
  const config = parseConfig(block, {
    'https://aws-mcp.eu-west-1.api.aws/mcp': backend.url,
    // The example names no STS endpoint, so that of its region is replaced here.
    'region: eu-west-1': `region: eu-west-1\n        stsUrl: ${sts.url}`,
  })
  const gateway = await startServed(block, config)
  for (const [groups, role] of [
    [['team-a'], 'mcp-read'],
    [['team-a', 'platform-admins'], 'mcp-admin'],
  ] as const) {
    await call(gateway, 'aws', await gateway.bearer('alice', undefined, { groups }))
    const signer = await sts.signerOf(lastCall(backend), { region: 'eu-west-1', service: 'aws-mcp' })
    assert.is(signer?.form['RoleArn'], `arn:aws:iam::123456789012:role/${role}`)
  }
  await Promise.all([gateway.close(), backend.close(), sts.close()])
})

test.run()
