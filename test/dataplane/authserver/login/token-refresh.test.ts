/** Tests refreshing over two replicas, with invalid answers and with stores that fail halfway. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pino from 'pino'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import { TokenRefresh } from '../../../../dataplane/authserver/login/token-refresh.ts'
import {
  type RefreshAnswer,
  type Upstream,
  UpstreamDenied,
} from '../../../../dataplane/authserver/login/upstream/upstream.ts'
import { connectRedis } from '../../../../dataplane/storage/redis.ts'
import {
  createMemoryTokenStore,
  createRedisTokenStore,
  type StoredTokenSet,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from '../../../../dataplane/upstream-tokens/index.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'

const log = pino({ level: 'silent' })
const FIRST = { owner: 'us', subject: 'user', accessToken: 'access-0', refreshToken: 'refresh-0', idToken: 'id-0' }

/** A provider with rotating refresh tokens, which is common. It runs `meanwhile` before it answers. */
function startRotating(
  change: (answer: RefreshAnswer) => RefreshAnswer = (answer) => answer,
  meanwhile: () => Promise<unknown> = () => delay(50),
) {
  let count = 0
  const used: string[] = []
  const provider: Upstream = {
    name: 'p',
    authorizationUrl: () => Promise.reject(new Error('not asked here')),
    exchange: () => Promise.reject(new Error('not asked here')),
    async refresh(refreshToken) {
      used.push(refreshToken)
      await meanwhile()
      if (refreshToken !== `refresh-${count}`) throw new UpstreamDenied('used already')
      count++
      const tokens = { subject: 'user', accessToken: `access-${count}`, obtainedAt: 0 }
      return change({ refreshToken: `refresh-${count}`, tokens })
    },
    close: async () => undefined,
  }
  return { provider, used }
}

const carriedIn = (tokens: UpstreamTokenStore) => new CarriedTokens({ tokens, keepS: 60, log: () => log })

const replica = (tokens: UpstreamTokenStore, provider: Upstream) =>
  new TokenRefresh({ upstreams: [provider], tokens, carried: carriedIn(tokens), keepS: 60, log })

for (const kind of ['memory', 'Redis'] as const) {
  const test = suite(kind)
  let redis: RedisServer | undefined
  let make: () => UpstreamTokenStore
  const clients: ReturnType<typeof connectRedis>[] = []

  test.before(async () => {
    if (kind === 'memory') {
      const shared = createMemoryTokenStore()
      make = () => shared
      return
    }
    redis = await startRedis()
    const { address } = redis
    make = () => {
      const client = connectRedis({ mode: 'standalone', addresses: [address] }, log)
      clients.push(client)
      return createRedisTokenStore({ client, prefix: 'portico:{test}:', secrets: () => ['s'.repeat(32)] })
    }
  })
  test.after(async () => {
    for (const client of clients) client.disconnect()
    await redis?.stop()
  })

  async function put(tokens: UpstreamTokenStore) {
    const place = { login: randomBytes(16).toString('base64url'), provider: 'p' }
    await tokens.put(place, FIRST, { ttlMs: 60_000 })
    return { place, before: (await tokens.get(place)) as StoredTokenSet }
  }

  test('two replicas with many callers refresh a token once', async () => {
    const { provider, used } = startRotating()
    const [one, two] = [replica(make(), provider), replica(make(), provider)]
    const { place, before } = await put(make())
    const sets = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 ? one : two).refresh(place, before)),
    )
    assert.equal(used, ['refresh-0'])
    for (const set of sets) assert.is(set?.accessToken, 'access-1')
    assert.is(sets[0]?.idToken, 'id-0')
    assert.is(sets[0]?.owner, 'us')
    const again = await one.refresh(place, sets[0] as StoredTokenSet)
    assert.is(again?.accessToken, 'access-2')
    assert.equal(used, ['refresh-0', 'refresh-1'])
  })

  test('later logins of the user use the rotated refresh token', async () => {
    const tokens = make()
    const { provider } = startRotating()
    const { place, before } = await put(tokens)
    await replica(tokens, provider).refresh(place, before)
    const { refreshToken: _, ...without } = FIRST
    const completeSet = (changes: Partial<UpstreamTokenSet>, at = place.provider) =>
      carriedIn(tokens).completed(at, { ...without, ...changes })
    assert.is((await completeSet({})).refreshToken, 'refresh-1')
    for (const [changes, at] of [
      [{ owner: 'somebody else' }, place.provider],
      [{ subject: 'somebody else' }, place.provider],
      [{}, 'another'],
    ] as const)
      assert.is((await completeSet(changes, at)).refreshToken, undefined)
    assert.is((await completeSet({ refreshToken: 'fresh' })).refreshToken, 'fresh')
    assert.is((await completeSet({})).refreshToken, 'fresh')
  })

  test('an unusable answer keeps the login, and the refresh token that came with the answer', async () => {
    for (const spoil of [
      ({ refreshToken }: RefreshAnswer) => ({
        ...(refreshToken && { refreshToken }),
        problem: new Error('bad ID token'),
      }),
      (answer: RefreshAnswer) =>
        'tokens' in answer ? { ...answer, tokens: { ...answer.tokens, subject: 'somebody else' } } : answer,
    ]) {
      const tokens = make()
      const { provider } = startRotating(spoil)
      const { place, before } = await put(tokens)
      const error = await replica(tokens, provider)
        .refresh(place, before)
        .catch((caught: Error) => caught)
      assert.instance(error, Error)
      const stored = await tokens.get(place)
      assert.is(stored?.refreshToken, 'refresh-1')
      assert.is(stored?.accessToken, 'access-0')
      assert.is(stored?.subject, 'user')
    }
  })

  test('an answer that is too large to store keeps the refresh token that came with it', async () => {
    const tokens = make()
    const { place, before } = await put(tokens)
    const { provider } = startRotating((answer) =>
      'tokens' in answer ? { ...answer, tokens: { ...answer.tokens, idToken: 'x'.repeat(100_000) } } : answer,
    )
    try {
      await replica(tokens, provider).refresh(place, before)
      assert.unreachable()
    } catch (error) {
      assert.instance(error, RangeError)
    }
    const stored = await tokens.get(place)
    assert.equal([stored?.accessToken, stored?.refreshToken], ['access-0', 'refresh-1'])
  })

  test('a refresh token that is no longer valid is sent once', async () => {
    const tokens = make()
    const { provider, used } = startRotating()
    const place = { login: randomBytes(16).toString('base64url'), provider: 'p' }
    await tokens.put(place, { ...FIRST, refreshToken: 'stolen' }, { ttlMs: 60_000 })
    await carriedIn(tokens).keep('p', { ...FIRST, refreshToken: 'stolen' })
    const one = replica(tokens, provider)
    for (let asks = 0; asks < 3; asks++)
      assert.is(await one.refresh(place, (await tokens.get(place)) as StoredTokenSet), undefined)
    assert.equal(used, ['stolen'])
    const completeSet = () => carriedIn(tokens).completed('p', { ...without, owner: 'us' })
    const { refreshToken: _, ...without } = FIRST
    assert.is((await completeSet()).refreshToken, undefined)
    for (const [stored, later] of [
      ['stolen', undefined],
      ['newer', 'newer'],
    ] as const) {
      await carriedIn(tokens).keep('p', { ...FIRST, refreshToken: stored })
      await carriedIn(tokens).forget('p', { ...FIRST, refreshToken: 'stolen' })
      assert.is((await completeSet()).refreshToken, later)
    }
    assert.is((await tokens.get(place))?.accessToken, 'access-0')
  })

  test('a login that is removed during a refresh does not come back', async () => {
    const tokens = make()
    const { place, before } = await put(tokens)
    const { provider, used } = startRotating(undefined, () => tokens.removeLogin(place.login))
    assert.is(await replica(tokens, provider).refresh(place, before), undefined)
    assert.equal(used, ['refresh-0'])
    assert.is(await tokens.get(place), undefined)
  })

  test('a refreshed token is not lost if the first write to the store fails', async () => {
    const tokens = make()
    const { provider } = startRotating()
    const { place, before } = await put(tokens)
    let failures = 2
    const failing: UpstreamTokenStore = {
      ...tokens,
      get: (at) => tokens.get(at),
      lock: (at, ms) => tokens.lock(at, ms),
      put: (at, set, options) => (failures-- > 0 ? Promise.reject(new Error('away')) : tokens.put(at, set, options)),
    }
    assert.is((await replica(failing, provider).refresh(place, before))?.refreshToken, 'refresh-1')
    assert.is((await tokens.get(place))?.refreshToken, 'refresh-1')
  })

  test.run()
}
