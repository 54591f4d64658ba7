/**
 * Runs enterprise-managed authorization with the SDK's client: it exchanges an ID token for an ID-JAG, and that for an
 * access token.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import {
  Client,
  CrossAppAccessProvider,
  requestJwtAuthorizationGrant,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthServerConfig } from '../../../../dataplane/config/auth-server.ts'
import { secret } from '../../../secrets/watch.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { type AuthServerUnderTest, startAuthServer } from '../../../support/identity/auth-server.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const agentSecret = secret(randomBytes(24).toString('base64url'))
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'

let raw: RawServer
let idp: IdentityProvider
let issuing: Server
let server: AuthServerUnderTest

/** Starts the part of an identity provider that exchanges ID tokens for ID-JAGs (RFC 8693), for users in the group `eng`. */
function startIssuing(): Promise<Server> {
  async function issue(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = ''
    for await (const chunk of request) body += chunk
    const form = new URLSearchParams(body)
    assert.equal([form.get('grant_type'), form.get('requested_token_type')], [EXCHANGE, ID_JAG])
    const { sub, groups, email } = decodeJwt<{ groups?: string[]; email?: string }>(form.get('subject_token') ?? '')
    response.setHeader('content-type', 'application/json')
    if (!groups?.includes('eng')) {
      response.statusCode = 400
      response.end(JSON.stringify({ error: 'access_denied' }))
      return
    }
    const claims = {
      sub,
      groups,
      email,
      aud: form.get('audience'),
      resource: form.get('resource'),
      client_id: 'agent',
      ...(form.has('scope') && { scope: form.get('scope') }),
    }
    const token = await idp.mint(claims, { header: { typ: 'oauth-id-jag+jwt' } })
    response.end(JSON.stringify({ access_token: token, issued_token_type: ID_JAG, token_type: 'N_A', expires_in: 300 }))
  }
  const created = createServer((request, response) => {
    issue(request, response).catch(() => response.destroy())
  })
  return new Promise((resolve) => created.listen(0, '127.0.0.1', () => resolve(created)))
}

test.before(async () => {
  raw = await startRawServer({
    era: 'both',
    call: (request) => answer(request, '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'),
  })
  idp = await startIdentityProvider()
  issuing = await startIssuing()
  const authServer = (resource: string): Partial<AuthServerConfig> => ({
    insecureAllowConfidentialOverLoopbackHTTP: true,
    upstreamProviders: [],
    trustedIssuers: [{ name: 'corp', issuerUrl: idp.issuer }],
    inboundGrants: {
      tokenExchange: {
        delegateClients: [
          { clientId: 'agent', clientSecretFile: 'agent', audiences: [resource], scopes: ['tools:call'] },
        ],
      },
      jwtBearer: {
        issuerPolicies: [
          {
            issuerRef: 'corp',
            maxAssertionAge: '5m',
            acceptedAssertionTypes: ['id_jag'],
            subjectRules: [{ name: 'eng', matcher: '"eng" in claims.groups', allowedResources: [resource] }],
            claims: { groups: 'groups', email: 'email' },
          },
        ],
      },
    },
  })
  server = await startAuthServer({
    authServer: authServer('https://not.yet.example'),
    gateway: { backends: [{ name: 'b', url: raw.url }] },
    prepare: (folder) => writeFile(join(folder, 'agent'), agentSecret),
  })
  const before = (await server.gateway.status()).config
  await server.gateway.configure(
    server.config(authServer(server.resource), {
      authz: { policies: ['permit(principal in Group::"eng", action, resource);'] },
    }),
  )
  for (let known = before; known === before; ) known = (await server.gateway.status()).config
})
test.after(async () => {
  await server.close()
  issuing.close()
  await Promise.all([raw.close(), idp.close()])
})

const connect = async (groups: string[]) => {
  const idToken = await idp.mint({ sub: 'anna', groups, email: 'anna@corp.example' })
  const provider = new CrossAppAccessProvider({
    clientId: 'agent',
    clientSecret: agentSecret,
    expectedIssuer: server.issuer,
    assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
      const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
        tokenEndpoint: `http://127.0.0.1:${(issuing.address() as AddressInfo).port}/token`,
        audience: authorizationServerUrl,
        resource: resourceUrl,
        idToken,
        clientId: 'agent-at-the-provider',
        ...(scope !== undefined && { scope }),
        fetchFn,
      })
      return jwtAuthGrant
    },
  })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StreamableHTTPClientTransport(new URL(server.resource), { authProvider: provider }))
  return { client, token: secret(provider.tokens()?.access_token ?? '') }
}

test('the SDK’s client lists and calls tools, at a server where nobody logs in', async () => {
  const { client, token } = await connect(['eng'])
  assert.equal(
    (await client.listTools()).tools.map(({ name }) => name),
    ['b_t'],
  )
  assert.is(readText(await client.callTool({ name: 'b_t', arguments: {} })), 'ok')
  const { sub, aud, groups, email, client_id } = decodeJwt(token) as Record<string, unknown>
  assert.equal([sub, aud, client_id], [`${idp.issuer}#anna`, server.resource, 'agent'])
  assert.equal([groups, email], [['eng'], 'anna@corp.example'])
  await client.close()
})

test('if the identity provider denies it, no login is begun instead', async () => {
  await connect(['sales']).then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /access_denied/),
  )
})

test.run()
