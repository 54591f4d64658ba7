/** Tests tokens of other people's provider: JWTs of RFC 9068, and opaque ones by introspection. */
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type OidcProvider, startOidcProvider } from '../../support/identity/oidc-provider.ts'
import { type ProtectedServer, protectedGateway, protectedRegistry } from '../../support/identity/protected-servers.ts'

const JWT = 'https://jwt.example'
const OPAQUE = 'https://opaque.example'

let provider: OidcProvider
let servers: Readonly<Record<'jwt' | 'opaque', readonly ProtectedServer[]>>

test.before(async () => {
  provider = await startOidcProvider({
    formatOf: (resource) => (resource === OPAQUE ? 'opaque' : 'jwt'),
    scopes: ['tools:read', 'tools:call'],
  })
  const { issuer, client } = provider
  const accepting = async (audience: string) => [
    await protectedGateway({ issuer, audience, client }, { scopes: ['tools:call'] }),
    await protectedRegistry({ issuer, audience, client }),
  ]
  servers = { jwt: await accepting(JWT), opaque: await accepting(OPAQUE) }
})
test.after(async () => {
  await Promise.all([...servers.jwt, ...servers.opaque].map((server) => server.close()))
  await provider.close()
})

const readStatus = async (server: ProtectedServer, token: string) => (await server.ask(`Bearer ${token}`)).status

test('a JWT is accepted by its own server and by no other', async () => {
  const token = await provider.token(JWT, 'tools:call')
  assert.is(decodeProtectedHeader(token).typ, 'at+jwt')
  assert.is(decodeJwt(token).aud, JWT)
  for (const server of servers.jwt) assert.is(await readStatus(server, token), 200, server.kind)
  for (const server of servers.opaque) assert.is(await readStatus(server, token), 401, server.kind)
})

test('an opaque token is accepted by its own server and by no other', async () => {
  const token = await provider.userToken('alice', OPAQUE, 'tools:call tools:read')
  assert.not.ok(token.includes('.'))
  for (const server of servers.opaque) assert.is(await readStatus(server, token), 200, server.kind)
  for (const server of servers.jwt) assert.is(await readStatus(server, token), 401, server.kind)
})

test('a token without the scope gets a step-up challenge, whether it has other scopes or none', async () => {
  const [gateway] = servers.jwt as [ProtectedServer]
  for (const scope of ['tools:read', '']) {
    const { status, challenge } = await gateway.ask(`Bearer ${await provider.token(JWT, scope)}`)
    assert.is(status, 403, scope)
    assert.match(challenge, 'scope="tools:call", error="insufficient_scope"')
  }
  const [opaque] = servers.opaque as [ProtectedServer]
  assert.is(await readStatus(opaque, await provider.userToken('alice', OPAQUE, 'tools:read')), 403)
})

test('an opaque token without a subject, as of client credentials, is refused', async () => {
  const token = await provider.token(OPAQUE, 'tools:call')
  for (const server of servers.opaque) assert.is(await readStatus(server, token), 401, server.kind)
})

test('a revoked opaque token is refused if it was not cached', async () => {
  const token = await provider.userToken('alice', OPAQUE, 'tools:call')
  await provider.revoke(token)
  for (const server of servers.opaque) assert.is(await readStatus(server, token), 401, server.kind)
})

test('neither the client’s secret nor a token is in a log', () => {
  for (const server of [...servers.jwt, ...servers.opaque])
    assert.not.ok(server.log().includes(provider.client.secret), server.kind)
})

test.run()
