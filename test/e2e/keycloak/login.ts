/** A person logs in at Keycloak and at a second provider, through a gateway in pods; each backend gets its own token. */
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { postModern } from '../../support/gateway/post.ts'
import { REDIRECT, readTokens, TestClient } from '../../support/identity/auth-server.ts'
import type { Keycloak } from '../../support/identity/keycloak.ts'
import { type LoginProvider, startLoginProvider } from '../../support/identity/login-provider.ts'
import { startVerifyingServer, type VerifyingServer } from '../../support/identity/verifying-server.ts'
import {
  apply,
  createNamespace,
  installOperator,
  kubectl,
  listPods,
  until,
} from '../../support/operator/e2e-cluster.ts'
import { answer, type RawServer, startRawServer } from '../../support/servers/raw-server.ts'
import { HOST, shareKeycloak, signIn } from './shared.ts'

const NAMESPACE = 'login'
const NAME = 'accounts'
const ISSUER = `http://vmcp-${NAME}.${NAMESPACE}.svc.cluster.local:4483`
const RESOURCE = `${ISSUER}/mcp`
const API = { apiVersion: 'portico.dev/v1beta1' } as const

const shared = shareKeycloak([`${ISSUER}/oauth/callback`])
let keycloak: Keycloak
/** Keycloak's address for pods. */
let issuer: string
let code: LoginProvider
let orders: VerifyingServer
let repositories: RawServer
let uninstall = () => {}

/** A backend that accepts tokens of the second provider, and returns their user. */
const startRepositories = () =>
  startRawServer({
    era: 'modern',
    host: HOST,
    call: () => undefined,
    async before(request, res) {
      if (request.message.method !== 'tools/call') return false
      const { authorization = '' } = request.headers
      const userInfo = await fetch(`${code.issuer}/me`, { headers: { authorization } })
      const { sub } = (await userInfo.json()) as { sub?: string }
      if (!userInfo.ok || sub === undefined) res.writeHead(401).end()
      else {
        const result = JSON.stringify({ content: [{ type: 'text', text: sub }] })
        res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, result))
      }
      return true
    },
  })

const provider = (name: string, issuerUrl: string, clientId: string, scopes: readonly string[]) => ({
  name,
  type: 'oidc',
  oidcConfig: {
    issuerUrl,
    clientId,
    clientSecretRef: { name: 'providers', key: name },
    scopes,
    allowPrivateIPs: true,
    insecureAllowHTTP: true,
  },
})

/** An external server, which gets the caller's token of a provider. */
const backend = (name: string, remoteUrl: string) => [
  {
    ...API,
    kind: 'MCPServerEntry',
    metadata: { name },
    spec: {
      groupRef: { name: NAME },
      remoteUrl,
      allowPrivateEndpoint: true,
      transport: 'streamable-http',
      externalAuthConfigRef: { name },
    },
  },
  {
    ...API,
    kind: 'MCPExternalAuthConfig',
    metadata: { name },
    spec: { type: 'upstreamInject', upstreamInject: { providerName: name } },
  },
]

const manifests = () => [
  {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'providers' },
    stringData: { corp: keycloak.client.secret, code: code.client.secret },
  },
  { ...API, kind: 'MCPGroup', metadata: { name: NAME }, spec: {} },
  {
    ...API,
    kind: 'MCPOIDCConfig',
    metadata: { name: 'own' },
    spec: { type: 'inline', inline: { issuer: ISSUER, insecureAllowHTTP: true } },
  },
  ...backend('corp', orders.url),
  ...backend('code', repositories.url),
  {
    ...API,
    kind: 'VirtualMCPServer',
    metadata: { name: NAME },
    spec: {
      groupRef: { name: NAME },
      incomingAuth: {
        type: 'oidc',
        audience: RESOURCE,
        oidcConfigRef: { name: 'own', resourceUrl: RESOURCE, scopes: ['accounts:use'] },
      },
      authServerConfig: {
        issuer: ISSUER,
        insecureAllowHTTP: true,
        upstreamProviders: [
          provider('corp', issuer, keycloak.client.id, ['openid', 'profile', keycloak.backend.scope]),
          provider('code', code.issuer, code.client.id, ['openid', 'profile']),
        ],
      },
    },
  },
]

test.before(async () => {
  // Keycloak takes a quarter of a minute to start.
  ;[keycloak, code, uninstall] = await Promise.all([
    shared.start(),
    startLoginProvider([`${ISSUER}/oauth/callback`], HOST),
    installOperator('cluster'),
  ])
  issuer = keycloak.issuer.replace('127.0.0.1', HOST)
  const { backend: meant } = keycloak
  const jwksUrl = `${issuer}/protocol/openid-connect/certs`
  orders = await startVerifyingServer({ era: 'modern', host: HOST, issuer, jwksUrl, audience: meant.audience })
  repositories = await startRepositories()
  createNamespace(NAMESPACE)
})
test.after(async () => {
  if (keycloak !== undefined) kubectl(['delete', 'namespace', NAMESPACE, '--timeout', '240s'])
  uninstall()
  await Promise.all([orders, repositories, code, shared].map((server) => server?.close()))
})

const call = async (name: string, token: string) =>
  (await postModern(RESOURCE, 'tools/call', { name, arguments: {} }, { authorization: `Bearer ${token}` })).json

test('both providers give their tokens, and the gateway’s one token reaches both backends', async () => {
  apply(NAMESPACE, ...manifests())
  const metadata = `${ISSUER}/.well-known/oauth-authorization-server`
  await until('the gateway is an authorization server', NAMESPACE, () =>
    fetch(metadata).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  const client = await TestClient.register(ISSUER, { client_name: 'A client' })
  const isEnd = (url: string) => url.startsWith(REDIRECT)
  const question = await client.agent.follow(client.authorizeUrl({ scope: 'accounts:use' }), isEnd)
  assert.ok(question.url.startsWith(issuer), question.url)
  const page = await (question.response as Response).text()
  const refused = await signIn(keycloak, client.agent, { at: question.url, page, password: 'not the password' })
  assert.is(refused.headers.get('location'), null)
  const again = await signIn(keycloak, client.agent, { at: question.url, page: await refused.text() })
  const back = again.headers.get('location')
  assert.ok(back?.startsWith(`${ISSUER}/oauth/callback?`), String(back))
  const end = await client.agent.follow(back as string, isEnd)
  const { searchParams } = new URL(end.url)
  assert.is(searchParams.get('iss'), ISSUER)
  const tokens = await readTokens(await client.exchange(searchParams.get('code') ?? ''))
  for (const { access_token: token } of [tokens, await readTokens(await client.refresh(tokens.refresh_token))]) {
    const claims = decodeJwt(token)
    assert.is(claims.iss, ISSUER)
    assert.is(claims['email'], 'alice@corp.example')
    await until('the tools are there', NAMESPACE, async () => (await call('corp_t', token)).result !== undefined)
    const { sub, aud, azp } = orders.admitted.at(-1) ?? {}
    assert.is((await call('corp_t', token)).result.content[0].text, sub)
    assert.is.not(sub, claims.sub)
    assert.ok([aud].flat().includes(keycloak.backend.audience))
    assert.is(azp, keycloak.client.id)
    assert.is((await call('code_t', token)).result.content[0].text, 'alice')
  }
})

test('no log of a pod has a secret', () => {
  const [pod] = listPods(NAMESPACE, 'VirtualMCPServer', NAME)
  const log = kubectl(['logs', pod?.metadata.name as string, '--namespace', NAMESPACE, '--all-containers'])
  for (const secret of [keycloak.client.secret, keycloak.user.password, code.client.secret])
    assert.not.ok(log.includes(secret))
})

test.run()
