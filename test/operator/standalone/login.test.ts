/** Runs a manifest with a gateway that logs a user in at a provider and calls a backend on the user's behalf. */
import { randomBytes } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../secrets/watch.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { ownHost } from '../../support/gateway/own-host.ts'
import { postModern } from '../../support/gateway/post.ts'
import { TestClient } from '../../support/identity/auth-server.ts'
import { type LoginProvider, startLoginProvider } from '../../support/identity/login-provider.ts'
import { freePort } from '../../support/network/free-port.ts'
import { StandaloneRun } from '../../support/operator/standalone-run.ts'
import { answer, OK_RESULT, startRawServer } from '../../support/servers/raw-server.ts'

const apiVersion = 'portico.dev/v1beta1'
const buildObject = (kind: string, name: string, spec: object, annotations = {}) => ({
  apiVersion,
  kind,
  metadata: { name, annotations },
  spec,
})
const yaml = (...objects: object[]) => objects.map((one) => JSON.stringify(one)).join('\n---\n')
const buildSecret = (name: string, stringData: object) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  stringData,
})

const buildProvider = ({ issuer, client }: LoginProvider) => ({
  name: 'corp',
  type: 'oidc',
  oidcConfig: {
    issuerUrl: issuer,
    clientId: client.id,
    clientSecretRef: { name: 'client', key: 'secret' },
    scopes: ['openid', 'profile'],
  },
})

interface World {
  readonly port: number
  readonly provider: LoginProvider
  readonly backend: string
}

function manifests({ port, provider, backend }: World): string {
  const issuer = `http://${ownHost}:${port}`
  const resourceUrl = `${issuer}/mcp`
  const remote = (name: string, query: string) =>
    buildObject('MCPServerEntry', name, {
      remoteUrl: `${backend}?${query}`,
      transport: 'streamable-http',
      groupRef: { name: 'tools' },
      externalAuthConfigRef: { name },
    })
  return yaml(
    buildObject('MCPGroup', 'tools', {}),
    buildObject('MCPOIDCConfig', 'own', { type: 'inline', inline: { issuer } }),
    remote('mine', 'mine'),
    buildObject('MCPExternalAuthConfig', 'mine', { type: 'upstreamInject', upstreamInject: { providerName: 'corp' } }),
    remote('strange', 'strange'),
    buildObject('MCPExternalAuthConfig', 'strange', {
      type: 'upstreamInject',
      upstreamInject: { providerName: 'other' },
    }),
    buildObject(
      'VirtualMCPServer',
      'all',
      {
        groupRef: { name: 'tools' },
        incomingAuth: {
          type: 'oidc',
          audience: resourceUrl,
          oidcConfigRef: { name: 'own', resourceUrl, scopes: ['tools:call', 'tools:read'] },
        },
        authServerConfig: {
          issuer,
          hmacSecretRefs: [{ name: 'keys', key: 'hmac' }],
          upstreamProviders: [buildProvider(provider)],
        },
      },
      { 'portico.dev/local-port': String(port) },
    ),
    buildSecret('keys', { hmac: secret(randomBytes(32).toString('base64url')) }),
  )
}

const clientSecret = (provider: LoginProvider, value = provider.client.secret) =>
  JSON.stringify(buildSecret('client', { secret: value }))

test('a user logs in at the provider, and a backend gets the token that the provider gave', async () => {
  const port = await freePort()
  const issuer = `http://${ownHost}:${port}`
  const provider = await startLoginProvider([`${issuer}/oauth/callback`])
  const backend = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  try {
    using folder = temporaryFolder({
      'manifests/all.yaml': manifests({ port, provider, backend: backend.url }),
      'manifests/client.yaml': clientSecret(provider, secret('not-the-right-one')),
    })
    await using run = new StandaloneRun(folder)
    const { problems } = await run.until('it is ready', ({ ready }) => ready)
    assert.ok(
      problems.some(({ message }) => message.includes('authServerConfig has no upstream provider "other"')),
      JSON.stringify(problems),
    )

    const client = await TestClient.register(issuer)
    assert.is((await client.authorize()).get('error'), 'access_denied', 'the provider does not know this secret')
    assert.match(client.faults[0] ?? '', 'invalid_client')
    folder.write('manifests/client.yaml', clientSecret(provider))
    await eventually('the rotated secret', async () => (await client.authorize()).has('code'))

    const tokens = await client.login()
    const call = (name: string) =>
      postModern(`${issuer}/mcp`, 'tools/call', { name }, { authorization: `Bearer ${tokens.access_token}` })
    assert.is((await call('mine_t')).status, 200)
    const { authorization } = backend.calls('tools/call').at(-1)?.headers ?? {}
    const userInfo = await fetch(`${provider.issuer}/me`, { headers: { authorization: secret(`${authorization}`) } })
    assert.is(userInfo.status, 200, 'the provider knows the token that the backend got')
    assert.is(((await userInfo.json()) as { sub: string }).sub, 'alice')
    assert.is((await postModern(`${issuer}/mcp`, 'tools/call', { name: 'mine_t' })).status, 401)
    assert.equal(
      backend.calls('tools/call').map(({ path }) => path.includes('mine')),
      [true],
      'a backend whose credential is unavailable is never called',
    )
  } finally {
    await provider.close()
    await backend.close()
  }
})

test('a proxy before one server does the same for that server alone', async () => {
  const port = await freePort()
  const issuer = `http://${ownHost}:${port}`
  const provider = await startLoginProvider([`${issuer}/oauth/callback`])
  const backend = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  const resourceUrl = `${issuer}/mcp`
  const upstreamProviders = [buildProvider(provider)]
  const authServer = { issuer, hmacSecretRefs: [{ name: 'keys', key: 'hmac' }], upstreamProviders }
  const spec = {
    remoteUrl: backend.url,
    oidcConfigRef: { name: 'own', audience: resourceUrl, resourceUrl, scopes: ['tools:call', 'tools:read'] },
    authServerRef: { name: 'login' },
  }
  try {
    using folder = temporaryFolder({
      'manifests/all.yaml': yaml(
        buildObject('MCPOIDCConfig', 'own', { type: 'inline', inline: { issuer } }),
        buildObject('MCPExternalAuthConfig', 'login', { type: 'embeddedAuthServer', embeddedAuthServer: authServer }),
        buildObject('MCPRemoteProxy', 'one', spec, { 'portico.dev/local-port': String(port) }),
        buildSecret('keys', { hmac: secret(randomBytes(32).toString('base64url')) }),
      ),
      'manifests/client.yaml': clientSecret(provider),
    })
    await using run = new StandaloneRun(folder)
    await run.until('it is ready', ({ ready }) => ready)
    const client = await TestClient.register(issuer)
    const tokens = await client.login()
    const call = (headers: Record<string, string>) => postModern(resourceUrl, 'tools/call', { name: 't' }, headers)
    assert.is((await call({ authorization: `Bearer ${tokens.access_token}` })).status, 200)
    const { authorization } = backend.calls('tools/call').at(-1)?.headers ?? {}
    const userInfo = await fetch(`${provider.issuer}/me`, { headers: { authorization: secret(`${authorization}`) } })
    assert.is(((await userInfo.json()) as { sub: string }).sub, 'alice')
    assert.is((await call({})).status, 401)
    assert.is((await call({ authorization: `${authorization}` })).status, 401, 'the provider’s token is not accepted')
    assert.is(backend.calls('tools/call').length, 1)
  } finally {
    await provider.close()
    await backend.close()
  }
})

test.run()
