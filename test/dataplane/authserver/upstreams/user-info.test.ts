/** Reads names and e-mail addresses from other endpoints, while only the ID token identifies the user. */
import type { ServerResponse } from 'node:http'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type AuthServerUnderTest, startAuthServer, TestClient } from '../../../support/identity/auth-server.ts'

let server: AuthServerUnderTest
let client: TestClient
/** The answer of the other endpoint. */
let elsewhere: { status?: number; body: unknown }
const tokens: (string | undefined)[] = []

test.before(async () => {
  server = await startAuthServer()
  const [corp] = server.config().authServer?.upstreamProviders ?? []
  if (corp?.oidcConfig === undefined) throw new Error('there is no provider')
  const userInfoOverride = {
    endpointUrl: `${server.upstream.issuer}/elsewhere`,
    fieldMapping: { nameFields: ['displayName'], emailFields: ['mail', 'addresses.0.value'] },
  }
  server.upstream.before = ({ url, headers }, response) => {
    if (url !== '/elsewhere') return false
    tokens.push(headers.authorization)
    reply(response)
    return true
  }
  const oidcConfig = { ...corp.oidcConfig, userInfoOverride }
  await server.gateway.configure(server.config({ upstreamProviders: [{ ...corp, oidcConfig }] }))
  client = await TestClient.register(server.issuer)
  elsewhere = { body: {} }
  await eventually('the new configuration', async () => {
    await client.login()
    return tokens.length > 0
  })
})
test.after(() => server.close())

function reply(response: ServerResponse): void {
  const { status = 200, body } = elsewhere
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

test('for display, userinfo goes before the ID token', async () => {
  elsewhere = { body: {} }
  const plain = decodeJwt((await client.login()).access_token)
  assert.is(plain['name'], 'Person alice')
  elsewhere = { status: 201, body: { sub: 'alice', displayName: 'Alice L.', mail: '', addresses: [{ value: 'a@x' }] } }
  const claims = decodeJwt((await client.login()).access_token)
  assert.equal([claims.sub, claims['name']], [plain.sub, 'Alice L.'])
  const readEmail = async (body: object) => {
    elsewhere = { body: { sub: 'alice', ...body } }
    return decodeJwt((await client.login()).access_token)['email']
  }
  assert.is(await readEmail({ mail: 'a@x', email_verified: true }), 'a@x')
  assert.is(await readEmail({ addresses: [{ value: 'a@x', email_verified: 'true' }] }), 'a@x')
  // An address that the other endpoint does not mark as verified leaves that of the ID token.
  for (const body of [
    { mail: 'a@x' },
    { mail: 'a@x', email_verified: false },
    { mail: 'a@x', email: 'b@x', email_verified: true },
    { addresses: [{ value: 'a@x' }], email_verified: true },
  ])
    assert.is(await readEmail(body), 'alice@example.com', JSON.stringify(body))
  assert.ok(tokens.every((header) => header?.startsWith('Bearer ')))
})

test('another subject, or an unusable userinfo answer, ends the login', async () => {
  for (const answer of [
    { body: { sub: 'bob' } },
    { body: { sub: 7 } },
    { body: { sub: {} } },
    { body: [] },
    { body: null },
    { status: 401, body: { sub: 'alice' } },
    { status: 302, body: { sub: 'alice' } },
  ]) {
    elsewhere = answer
    assert.is((await client.authorize()).get('error'), 'access_denied', JSON.stringify(answer))
    assert.match(client.faults.pop() ?? '', 'You can’t repair that', JSON.stringify(answer))
  }
})

test.run()
