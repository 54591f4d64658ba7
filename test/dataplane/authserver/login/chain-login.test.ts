/** Checks that a login that fails halfway leaves nothing behind. */
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import { ChainLogin } from '../../../../dataplane/authserver/login/chain-login.ts'
import type { LoginStep } from '../../../../dataplane/authserver/login/login.ts'
import { type Upstream, UpstreamDenied } from '../../../../dataplane/authserver/login/upstream/upstream.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import {
  createMemoryTokenStore,
  type Place,
  type UpstreamTokenStore,
} from '../../../../dataplane/upstream-tokens/index.ts'

const PENDING = {
  uid: 'u',
  request: 'client_id=c',
  clientId: 'c',
  clientName: undefined,
  redirectUri: 'https://c/cb',
  scope: 's',
  resource: 'r',
}
const BROWSER = { id: 'this-browser' }

/** Returns a provider that uses the state as its code. */
const upstream = (name: string, fail?: () => Error): Upstream => ({
  name,
  authorizationUrl: async ({ state }) => `https://${name}/authorize?state=${state}`,
  async exchange() {
    if (fail !== undefined) throw fail()
    const tokens = { subject: `user-at-${name}`, accessToken: `token-of-${name}`, obtainedAt: 0 }
    return { issuer: `https://${name}`, tokens }
  },
  refresh: () => Promise.reject(new Error('not asked here')),
  close: async () => undefined,
})

function start(upstreams: readonly Upstream[], tokens = createMemoryTokenStore()) {
  const places: Place[] = []
  const watched: UpstreamTokenStore = {
    ...tokens,
    put(place, set, options) {
      places.push(place)
      return tokens.put(place, set, options)
    },
  }
  const log = pino({ level: 'silent' })
  const login = (providers: readonly Upstream[], primary = providers[0]?.name ?? '') =>
    new ChainLogin({
      issuer: 'https://gateway',
      upstreams: providers,
      primaries: [primary],
      carried: new CarriedTokens({ tokens: watched, keepS: 60, log: () => log }),
      store,
      keyed: () => keyed,
      tokens: watched,
      loginS: 60,
      keepS: 60,
      log: () => log,
    })
  const store = createMemoryStore()
  const keyed = keyedHash(['s'.repeat(32)])
  return { login, chain: login(upstreams), tokens, places }
}

async function answerStep(login: ChainLogin, step: LoginStep, browser = BROWSER) {
  assert.is(step.kind, 'respond')
  const location = step.kind === 'respond' ? (step.response.headers.get('location') ?? '') : ''
  const state = new URL(location).searchParams.get('state') ?? ''
  return login.callback(new URLSearchParams({ state, code: 'code' }), browser)
}

test('all providers’ tokens of a login are stored under one login', async () => {
  const { chain, places, tokens } = start([upstream('a'), upstream('b')])
  const done = await answerStep(chain, await answerStep(chain, await chain.begin(PENDING, BROWSER)))
  assert.is(done.kind, 'done')
  assert.is(new Set(places.map(({ login }) => login)).size, 1)
  const sets = await Promise.all(places.slice(0, 2).map((place) => tokens.get(place)))
  assert.equal(
    sets.map((set) => set?.accessToken),
    ['token-of-a', 'token-of-b'],
  )
  for (const set of sets) assert.is(set?.owner, done.kind === 'done' && done.user.subject)
})

test('the primary provider says who the user is, and until then the tokens belong to nobody', async () => {
  const { login, tokens, places } = start([])
  const providers = [upstream('a'), upstream('b'), upstream('c')]
  const subjects: string[] = []
  for (const primary of ['a', 'b', 'c']) {
    const chain = login(providers, primary)
    let step: LoginStep = await chain.begin(PENDING, BROWSER)
    for (const _ of providers) {
      step = await answerStep(chain, step)
      if (step.kind === 'done') break
      for (const place of places.splice(0)) assert.is((await tokens.get(place))?.owner, '')
    }
    assert.is(step.kind, 'done')
    if (step.kind !== 'done') continue
    subjects.push(step.user.subject)
    for (const place of places.splice(0)) assert.is((await tokens.get(place))?.owner, step.user.subject)
  }
  assert.is(new Set(subjects).size, 3)
})

test('a change of the primary provider in the middle of a login ends the login', async () => {
  const { login } = start([])
  const providers = [upstream('a'), upstream('b'), upstream('c')]
  for (const [before, after] of [
    ['a', 'b'],
    ['b', 'a'],
    ['a', 'c'],
  ]) {
    const chain = login(providers, before)
    const second = await answerStep(chain, await answerStep(chain, await chain.begin(PENDING, BROWSER)))
    const step = await answerStep(login(providers, after), second)
    // A provider that the login has yet to visit can still identify the user.
    assert.is(step.kind, after === 'c' ? 'done' : 'failed')
    if (step.kind === 'done') assert.is(step.user.subject, (await done(login(providers, 'c')))?.subject)
  }
})

test('a sign-in to the sessions page visits the primary provider alone and stores no tokens', async () => {
  const { login, places } = start([])
  const providers = [upstream('a'), upstream('b')]
  const flow = { purpose: 'account', uid: '', providers: ['b'] } as const
  const chain = login(providers, 'b')
  const step = await answerStep(chain, await chain.pass(flow, BROWSER))
  assert.is(step.kind === 'done' && step.purpose, 'account')
  assert.is(step.kind === 'done' && step.user.subject, (await done(login(providers, 'b')))?.subject)
  places.length = 0
  await answerStep(chain, await chain.pass(flow, BROWSER))
  assert.equal(places, [])
  // Another provider identifies users by now, so nobody is signed in.
  const late = await answerStep(login(providers, 'a'), await chain.pass(flow, BROWSER))
  assert.is(late.kind, 'failed')
})

test('a login ends if its earlier tokens are lost meanwhile', async () => {
  const { chain, places, tokens } = start([upstream('a'), upstream('b')])
  const second = await answerStep(chain, await chain.begin(PENDING, BROWSER))
  await tokens.removeLogin((places[0] as Place).login)
  assert.is((await answerStep(chain, second)).kind, 'failed')
})

/** Completes a login and returns its user. */
async function done(chain: ChainLogin) {
  let step: LoginStep = await chain.begin(PENDING, BROWSER)
  while (step.kind === 'respond') step = await answerStep(chain, step)
  return step.kind === 'done' ? step.user : undefined
}

for (const [why, fail, error] of [
  ['refuses', () => new UpstreamDenied('no'), 'access_denied'],
  ['fails', () => new Error('away'), 'server_error'],
] as const)
  test(`a later provider that ${why} removes the tokens of the earlier ones`, async () => {
    const { chain, places, tokens } = start([upstream('a'), upstream('b', fail), upstream('c')])
    const failed = await answerStep(chain, await answerStep(chain, await chain.begin(PENDING, BROWSER)))
    assert.equal(failed, { kind: 'failed', purpose: 'authorize', uid: 'u', error })
    assert.is(places.length, 1)
    assert.is(await tokens.get(places[0] as Place), undefined)
  })

test('a login that changes the browser ends, and its tokens are removed', async () => {
  const { chain, places, tokens } = start([upstream('a'), upstream('b')])
  const redirected = await answerStep(chain, await chain.begin(PENDING, BROWSER))
  assert.equal(await answerStep(chain, redirected, { id: 'another-browser' }), { kind: 'refused' })
  assert.is(await tokens.get(places[0] as Place), undefined)
  assert.equal(await answerStep(chain, redirected), { kind: 'refused' })
})

test('if the store fails at the second provider, the tokens of the first are removed', async () => {
  const tokens = createMemoryTokenStore()
  const failing: UpstreamTokenStore = {
    ...tokens,
    put: (place, set, options) =>
      place.provider === 'b' ? Promise.reject(new Error('away')) : tokens.put(place, set, options),
  }
  const { chain, places } = start([upstream('a'), upstream('b')], failing)
  const failed = await answerStep(chain, await answerStep(chain, await chain.begin(PENDING, BROWSER)))
  assert.is(failed.kind, 'failed')
  assert.is(await tokens.get(places[0] as Place), undefined)
})

test('a login succeeds although tokens of earlier logins are gone', async () => {
  const tokens = createMemoryTokenStore()
  const failing: UpstreamTokenStore = {
    ...tokens,
    get: (place) => (place.login.startsWith('of user') ? Promise.reject(new Error('away')) : tokens.get(place)),
  }
  const { chain } = start([upstream('a')], failing)
  assert.is((await answerStep(chain, await chain.begin(PENDING, BROWSER))).kind, 'done')
})

test('a change of the providers during a login does not change who the user is', async () => {
  const { login, chain } = start([upstream('a'), upstream('b')])
  const redirected = await answerStep(chain, await chain.begin(PENDING, BROWSER))
  const turned = login([upstream('b'), upstream('a')])
  assert.is((await answerStep(turned, redirected)).kind, 'failed')
  const started = await chain.begin(PENDING, BROWSER)
  assert.is((await answerStep(login([upstream('z')]), started)).kind, 'failed')
})

test.run()
