/** Tests refresh tokens alone: one record for each grant, and reuse of any earlier token is detected. */
import { randomBytes } from 'node:crypto'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { refreshTokens } from '../../../../dataplane/authserver/provider/refresh-tokens.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'

const secretText = () => randomBytes(32).toString('base64url')
const GRANT = secretText()

function setUp(secrets = [secretText()]) {
  let now = 1_000_000
  const store = createMemoryStore()
  const tokens = refreshTokens(store, keyedHash(secrets), () => now)
  return { store, tokens, secrets, pass: (ms: number) => (now += ms) }
}

test('the current refresh token works; a replaced one is recognised as reused at any time', async () => {
  const { tokens, pass } = setUp()
  const issued: string[] = []
  for (let rotation = 0; rotation < 4; rotation++) {
    const token = tokens.make(GRANT, rotation)
    await tokens.keep(token, { clientId: 'c', rotations: rotation }, 3600)
    issued.push(token)
    pass(60_000)
  }
  const found = await Promise.all(issued.map((token) => tokens.find(token)))
  assert.equal(
    found.map((payload) => payload?.['consumed'] !== undefined),
    [true, true, true, false],
  )
  assert.is(found[3]?.['jti'], issued[3])
  assert.is(await tokens.find(tokens.make(secretText(), 0)), undefined)
})

test('a token that was just replaced works for ten seconds if its answer was not stored', async () => {
  const { tokens, pass } = setUp()
  const [first, second] = [tokens.make(GRANT, 0), tokens.make(GRANT, 1)]
  await tokens.keep(first, {}, 3600)
  await tokens.keep(second, {}, 3600)
  pass(9_999)
  assert.is((await tokens.find(first))?.['consumed'], undefined)
  pass(1)
  assert.is.not((await tokens.find(first))?.['consumed'], undefined)
})

test('a grant takes one record, however often its token is rotated', async () => {
  const { tokens, store } = setUp()
  let most = 0
  const set = store.set
  store.set = (kind, name, text, ttl) => {
    most = Math.max(most, text.length)
    assert.equal([kind, name], ['refresh', GRANT])
    return set(kind, name, text, ttl)
  }
  for (let rotation = 0; rotation < 500; rotation++)
    await tokens.keep(tokens.make(GRANT, rotation), { clientId: 'c' }, 3600)
  assert.ok(most < 400, String(most))
})

test('tokens of an earlier secret work after a rotation, until that secret is removed', async () => {
  const { tokens, store, secrets } = setUp()
  const token = tokens.make(GRANT, 0)
  await tokens.keep(token, {}, 3600)
  assert.ok(await refreshTokens(store, keyedHash([secretText(), ...secrets])).find(token))
  assert.is(await refreshTokens(store, keyedHash([secretText()])).find(token), undefined)
})

test('secrets that are too short are refused, without being shown', () => {
  assert.throws(
    () => keyedHash(['short-secret']),
    (error: Error) => /32 bytes/.test(error.message) && !error.message.includes('short-secret'),
  )
  assert.throws(() => keyedHash([]), /no hmac secret/)
})

test.run()
