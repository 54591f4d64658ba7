/** Tests a whole login: registration, code, tokens, and calls of the gateway with them. */
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { postModern } from '../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../support/identity/auth-server.ts'

let server: AuthServerUnderTest
test.before(async () => {
  server = await startAuthServer()
})
test.after(() => server.close())

const ask = (token: string) =>
  postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })

test('a user logs in at the provider, and the gateway lets the client’s token in', async () => {
  const client = await TestClient.register(server.issuer)
  const answer = await client.authorize()
  assert.is(answer.get('state'), 'the-state')
  assert.is(answer.get('iss'), server.issuer)
  const tokens = await readTokens(await client.exchange(answer.get('code') as string))
  assert.is(tokens.expires_in, 3600)
  const claims = decodeJwt(tokens.access_token)
  assert.equal(decodeProtectedHeader(tokens.access_token).alg, 'ES256')
  assert.equal(decodeProtectedHeader(tokens.access_token).typ, 'at+jwt')
  assert.is(claims.aud, server.resource)
  assert.is(claims.iss, server.issuer)
  assert.is(claims['client_id'], client.id)
  assert.is(claims['scope'], 'tools:call tools:read')
  assert.match(claims.sub as string, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.match(claims['tsid'] as string, /^[\w-]{43}$/)
  assert.is((await ask(tokens.access_token)).status, 200)
  const refreshed = await readTokens(await client.refresh(tokens.refresh_token))
  assert.is.not(refreshed.refresh_token, tokens.refresh_token)
  assert.is(decodeJwt(refreshed.access_token)['tsid'], claims['tsid'])
  assert.is(decodeJwt(refreshed.access_token).sub, claims.sub)
  assert.is((await ask(refreshed.access_token)).status, 200)
})

test('a second use of a code revokes the tokens of the first', async () => {
  const client = await TestClient.register(server.issuer)
  const code = (await client.authorize()).get('code') as string
  const tokens = await readTokens(await client.exchange(code))
  assert.is(await refusal(client.exchange(code)), '400 invalid_grant')
  assert.is((await ask(tokens.access_token)).status, 401)
  assert.is(await refusal(client.refresh(tokens.refresh_token)), '400 invalid_grant')
})

test.run()
