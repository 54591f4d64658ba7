/** Tests the token endpoint over each kind of storage. */

import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { secret } from '../../../secrets/watch.ts'
import { eventually } from '../../../support/eventually.ts'
import { postModern } from '../../../support/gateway/post.ts'
import {
  type AuthServerUnderTest,
  REDIRECT,
  readTokens,
  refusal,
  startAuthServer,
  TestClient,
} from '../../../support/identity/auth-server.ts'
import { dropAnswers } from '../../../support/identity/kept-answers.ts'
import { openRedis } from '../../../support/network/open-clients.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const hmacSecret = secret(randomBytes(32).toString('base64url'))

for (const type of ['memory', 'redis'] as const) {
  const test = suite(`tokens in ${type}`)
  let redis: RedisServer | undefined
  let server: AuthServerUnderTest
  let client: TestClient

  test.before(async () => {
    redis = type === 'redis' ? await startRedis() : undefined
    server = await startAuthServer({
      authServer: {
        hmacSecretFiles: ['hmac'],
        allowConfidentialClientRegistration: true,
        insecureAllowConfidentialOverLoopbackHTTP: true,
        storage: redis === undefined ? { type } : { type, redis: { addresses: [redis.address] } },
      },
      prepare: (directory) => writeFile(join(directory, 'hmac'), hmacSecret),
    })
    client = await TestClient.register(server.issuer)
  })
  test.after(async () => {
    await server.close()
    await redis?.stop()
  })

  const code = async (changes = {}) => (await client.authorize(changes)).get('code') as string
  const isAccepted = async (token: string) =>
    (await postModern(server.gateway.url, 'server/discover', {}, { authorization: `Bearer ${token}` })).status === 200

  test('a request without a required parameter is refused with its name', async () => {
    const good = await code()
    for (const [fields, expected] of [
      [{}, '400 invalid_request'],
      [{ grant_type: 'password' }, '400 unsupported_grant_type'],
      [{ grant_type: 'client_credentials' }, '400 unsupported_grant_type'],
      [{ grant_type: 'refresh_token' }, '400 invalid_request'],
      [{ grant_type: 'authorization_code' }, '400 invalid_request'],
      [{ grant_type: 'authorization_code', code: good, redirect_uri: REDIRECT }, '400 invalid_grant'],
      [{ grant_type: 'authorization_code', code: good, code_verifier: client.verifier }, '400 invalid_request'],
    ] as const)
      assert.is(await refusal(client.token(fields)), expected, JSON.stringify(fields).slice(0, 60))
    assert.is(await refusal(client.exchange(good, { code_verifier: 'w'.repeat(43) })), '400 invalid_grant')
    assert.is(
      await refusal(client.exchange(good, { redirect_uri: 'http://127.0.0.1:7778/callback' })),
      '400 invalid_grant',
    )
    assert.is(
      await refusal(client.exchange(good, { redirect_uri: 'http://127.0.0.1:7777/callback/' })),
      '400 invalid_grant',
    )
    assert.is(await refusal(client.exchange('made-up')), '400 invalid_grant')
    assert.is(await refusal(client.exchange('x'.repeat(10_000))), '400 invalid_grant')
    assert.is(await refusal(client.refresh(good)), '400 invalid_grant')
    const other = await TestClient.register(server.issuer)
    other.verifier = client.verifier
    assert.is(await refusal(other.exchange(good)), '400 invalid_grant')
    const tokens = await readTokens(await client.exchange(good))
    assert.is(await refusal(client.exchange(tokens.refresh_token)), '400 invalid_grant')
    assert.is(await refusal(other.refresh(tokens.refresh_token)), '400 invalid_grant')
    await readTokens(await client.refresh(tokens.refresh_token))
  })

  test('bodies of another type or too large, repeated parameters and unknown clients are refused', async () => {
    const form = { grant_type: 'authorization_code', client_id: client.id, code: 'x' }
    assert.is(await refusal(client.post('token', JSON.stringify(form))), '400 invalid_request')
    assert.is(await refusal(client.post('token', { ...form, x: 'y'.repeat(70_000) })), '413 invalid_request')
    for (const name of ['code', 'client_id', 'grant_type', 'resource', 'scope'])
      assert.is(
        await refusal(
          client.post('token', [...Object.entries({ ...form, resource: 'a', scope: 'b' }), [name, 'z']] as [
            string,
            string,
          ][]),
        ),
        '400 invalid_request',
        name,
      )
    for (const id of ['', 'unknown', 'A'.repeat(22), '__proto__'])
      assert.is(await refusal(client.post('token', { ...form, client_id: id })), '401 invalid_client', id)
    for (const authorization of ['Basic', 'Basic !!', `Basic ${Buffer.from('a').toString('base64')}`, 'Bearer x'])
      assert.is(
        await refusal(client.post('token', { grant_type: 'authorization_code' }, { authorization })),
        '401 invalid_client',
        authorization,
      )
    const response = await client.post('token', { grant_type: 'authorization_code' })
    assert.match(response.headers.get('www-authenticate') ?? '', /^Basic realm="/)
    assert.is(response.headers.get('cache-control'), 'no-store')
    assert.is((await fetch(`${server.issuer}/oauth/token`)).status, 405)
  })

  test('a public client may send a secret', async () => {
    const response = await client.exchange(await code(), { client_secret: 'whatever-that-is' })
    assert.is(response.status, 200)
    await readTokens(response)
  })

  test('a refresh token works once; within ten seconds it gets the same answer, however often', async () => {
    const { refresh_token: first, access_token: token } = await client.login()
    const answers = await Promise.all(Array.from({ length: 6 }, async () => readTokens(await client.refresh(first))))
    assert.is(new Set(answers.map(({ refresh_token: next }) => next)).size, 1)
    assert.is(new Set(answers.map(({ access_token: next }) => next)).size, 1)
    assert.equal(await readTokens(await client.refresh(first)), answers[0])
    const other = await TestClient.register(server.issuer)
    assert.is(await refusal(other.refresh(first)), '400 invalid_grant')
    const next = await readTokens(await client.refresh(answers[0]?.refresh_token ?? ''))
    assert.ok(await isAccepted(next.access_token))
    assert.ok(await isAccepted(token))
  })

  test('the reuse of a refresh token two rotations later ends the login', async () => {
    const { refresh_token: first } = await client.login()
    const second = await readTokens(await client.refresh(first))
    const third = await readTokens(await client.refresh(second.refresh_token))
    assert.ok(await isAccepted(third.access_token))
    // Simulates ten seconds later, when the answer is no longer kept.
    if (redis !== undefined) await dropAnswers(redis)
    else return
    assert.is(await refusal(client.refresh(first)), '400 invalid_grant')
    assert.is(await refusal(client.refresh(third.refresh_token)), '400 invalid_grant')
    assert.not.ok(await isAccepted(third.access_token))
    assert.not.ok(await isAccepted(second.access_token))
  })

  test('the reuse of a code revokes its access token, its refresh token, and their successors', async () => {
    const used = await code()
    const first = await readTokens(await client.exchange(used))
    const second = await readTokens(await client.refresh(first.refresh_token))
    const other = await client.login()
    assert.ok(await isAccepted(first.access_token))
    assert.is(await refusal(client.exchange(used)), '400 invalid_grant')
    for (const { access_token: token, refresh_token: refresh } of [first, second]) {
      assert.not.ok(await isAccepted(token))
      assert.is(await refusal(client.refresh(refresh)), '400 invalid_grant')
    }
    assert.ok(await isAccepted(other.access_token))
  })

  test('a client is kept for 30 days after each time that it gets tokens', async () => {
    if (redis === undefined) return
    const commands = openRedis(redis.port)
    const findKey = async () => {
      const [key = '', ...more] = await commands.keys(`*lient:${client.id}`)
      assert.equal(more, [])
      return key
    }
    const code = (await client.authorize()).get('code') as string
    for (const get of [() => client.exchange(code), async () => client.refresh((await client.login()).refresh_token)]) {
      await commands.expire(await findKey(), 100)
      await readTokens(await get())
      assert.ok((await commands.ttl(await findKey())) > 29 * 24 * 60 * 60)
    }
    // A refused request renews nothing.
    await commands.expire(await findKey(), 100)
    await refusal(client.exchange('made-up'))
    assert.ok((await commands.ttl(await findKey())) <= 100)
    commands.disconnect()
  })

  test('a refresh may ask for less and not for more', async () => {
    const { refresh_token: token } = await client.login({ scope: 'tools:call' })
    assert.is(await refusal(client.refresh(token, { scope: 'tools:call tools:read' })), '400 invalid_scope')
    const wide = await client.login()
    const narrowed = await readTokens(await client.refresh(wide.refresh_token, { scope: 'tools:read' }))
    assert.is(decodeJwt(narrowed.access_token)['scope'], 'tools:read')
    assert.is(
      await refusal(client.refresh(narrowed.refresh_token, { resource: 'https://other.example/mcp' })),
      '400 invalid_target',
    )
  })

  test('a client that did not register for refresh tokens gets none', async () => {
    const plain = await TestClient.register(server.issuer, { grant_types: ['authorization_code'] })
    const tokens = await plain.login()
    assert.is(tokens.refresh_token, undefined)
  })

  test('an altered refresh token is refused, and ends no login', async () => {
    const { refresh_token: token } = await client.login()
    const [grant, rotation, random, mac] = token.split('.') as [string, string, string, string]
    for (const forged of [
      `${grant}.1.${random}.${mac}`,
      `${grant}.${rotation}.${'A'.repeat(43)}.${mac}`,
      `${'A'.repeat(43)}.${rotation}.${random}.${mac}`,
      `${grant}.${rotation}.${random}.${'A'.repeat(43)}`,
      `${grant}.${rotation}.${random}`,
      token.slice(0, -1),
      `${token}x`,
      '',
      '....',
    ])
      assert.match(await refusal(client.refresh(forged)), /^400 invalid_(grant|request)$/)
    await readTokens(await client.refresh(token))
  })

  test('a login stores no secret, and every key expires', async () => {
    if (redis === undefined) return
    const redirect = 'https://app.example/cb'
    const tokens = await client.login()
    const used = await code()
    await readTokens(await client.exchange(used))
    // Its secret is in the form of every request.
    const confidential = await TestClient.register(server.issuer, {
      redirect_uris: [redirect],
      token_endpoint_auth_method: 'client_secret_post',
    })
    const own = await confidential.login({ redirect_uri: redirect })
    await readTokens(await confidential.refresh(own.refresh_token))
    const commands = openRedis(redis.port)
    let seen = 0
    for (const key of await commands.keys('*')) {
      assert.match(key, /^portico:\{gateway\/default\/test\}:/)
      assert.is.not(await commands.ttl(key), -1, key)
      const kind = await commands.type(key)
      const value =
        kind === 'string' ? await commands.get(key) : kind === 'hash' ? (await commands.hvals(key)).join() : ''
      for (const hidden of [tokens.refresh_token, tokens.access_token, used, hmacSecret, confidential.secret as string])
        assert.not.ok(`${key} ${value}`.includes(hidden), key)
      seen++
    }
    assert.ok(seen > 5)
    commands.disconnect()
  })

  test('if storage fails while a code is redeemed, the error says so, and the code works afterwards', async () => {
    if (redis === undefined) return
    const good = await code()
    const commands = openRedis(redis.port)
    try {
      // The client and its code can be read, but the code can't be marked as used.
      await commands.call('ACL', 'SETUSER', 'default', '-set')
      assert.is(await refusal(client.exchange(good)), '503 temporarily_unavailable')
    } finally {
      await commands.call('ACL', 'SETUSER', 'default', '+set')
      commands.disconnect()
    }
    await readTokens(await client.exchange(good))
  })

  test('while storage is down the answer says so, and requests succeed afterwards', async () => {
    if (redis === undefined) return
    const { refresh_token: token } = await client.login()
    await redis.stop()
    assert.is(await refusal(client.refresh(token)), '503 temporarily_unavailable')
    assert.is((await client.agent.get(client.authorizeUrl())).status, 503)
    redis = await startRedis({ port: redis.port })
    await eventually(
      'it is back',
      async () => (await client.post('register', JSON.stringify({ redirect_uris: [REDIRECT] }))).status === 201,
    )
  })

  test.run()
}
