/** Exchanges tokens at other people's token endpoint: each backend accepts only tokens for itself. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { type OidcProvider, startOidcProvider } from '../../../support/identity/oidc-provider.ts'
import { startVerifyingServer, type VerifyingServer } from '../../../support/identity/verifying-server.ts'

const GATEWAY = 'https://gateway.example/mcp'
const SCOPE = 'orders:read'
const eras = ['modern', 'legacy'] as const

let provider: OidcProvider
let gateway: GatewayUnderTest
let servers: readonly VerifyingServer[]

test.before(async () => {
  provider = await startOidcProvider({ formatOf: () => 'jwt', scopes: ['tools:call', SCOPE] })
  const { issuer, tokenUrl, client } = provider
  const buildAudience = (era: string) => `https://${era}.example/mcp`
  const jwksUrl = `${issuer}/jwks`
  servers = await Promise.all(
    eras.map((era) => startVerifyingServer({ era, issuer, jwksUrl, audience: buildAudience(era) })),
  )
  const credentialFor = (era: string, clientSecretFile: string) => ({
    type: 'tokenExchange' as const,
    tokenExchange: { tokenUrl, audience: buildAudience(era), scopes: [SCOPE], clientId: client.id, clientSecretFile },
  })
  const [first] = servers as [VerifyingServer]
  gateway = await startGateway(
    {
      incomingAuth: { type: 'oidc', oidc: { issuer, audience: GATEWAY } },
      backends: [
        ...eras.map((era, index) => ({
          name: era,
          url: (servers[index] as VerifyingServer).url,
          credential: credentialFor(era, 'client-secret'),
        })),
        // Its token is for another server.
        { name: 'wrong', url: first.url, credential: credentialFor('legacy', 'client-secret') },
        // The provider refuses this client.
        { name: 'refused', url: first.url, credential: credentialFor('modern', 'wrong-secret') },
      ],
    },
    async (directory) => {
      await writeFile(join(directory, 'client-secret'), client.secret)
      await writeFile(join(directory, 'wrong-secret'), 'no-secret-of-this-client')
    },
  )
})
test.after(async () => {
  await gateway.close()
  await Promise.all(servers.map((server) => server.close()))
  await provider.close()
})

const bearer = async (subject: string) => ({
  authorization: `Bearer ${await provider.userToken(subject, GATEWAY, 'tools:call')}`,
})

for (const mode of eras)
  test(`each caller reaches each backend with a token of their own for it (${mode} clients)`, async () => {
    const users = ['alice', 'bob', 'carol']
    const clients = await Promise.all(
      users.map(async (user) => connect(gateway.url, mode, { headers: await bearer(user) })),
    )
    for (const [index, { client }] of clients.entries())
      for (const era of eras)
        assert.is(readText(await client.callTool({ name: `${era}_t`, arguments: {} })), users[index], `${era} backend`)
    for (const { client } of clients) await client.close()
  })

test('backends accept tokens that were issued for them, to the gateway, with the scope', () => {
  for (const [index, { admitted }] of servers.entries()) {
    assert.ok(admitted.length > 0)
    for (const { aud, scope, client_id: client } of admitted)
      assert.equal([aud, scope, client], [`https://${eras[index]}.example/mcp`, SCOPE, provider.client.id])
  }
})

test('no backend sees a caller’s token', async () => {
  for (const { seen } of servers)
    for (const { headers } of seen) {
      const [, token] = (headers.authorization ?? '').split(' ')
      if (token?.startsWith('eyJ')) assert.is.not(decodeJwt(token).aud, GATEWAY)
    }
})

test('if a token is for another server, or the gateway’s client is refused, the error names only the backend', async () => {
  const headers = await bearer('alice')
  const { json } = await postModern(gateway.url, 'tools/list', {}, headers)
  const names = json.result.tools.map(({ name }: { name: string }) => name)
  assert.equal(names.sort(), ['legacy_t', 'modern_t'])
  for (const [backend, why] of [
    ['wrong', 'wrong'],
    ['refused', 'its token endpoint refused the exchange'],
  ] as const) {
    const { text } = await postModern(gateway.url, 'tools/call', { name: `${backend}_t` }, headers)
    assert.match(text, why)
    assert.not.match(text, /eyJ|invalid_client|127\.0\.0\.1/)
  }
})

test.run()
