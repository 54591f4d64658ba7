/** Checks how links are stored: one for each login and provider, for ten minutes, and none of an unsuitable login. */
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import type { LoginFlow, LoginStep } from '../../../../dataplane/authserver/login/login.ts'
import { LoginLinks, type Wanted } from '../../../../dataplane/authserver/login/login-links.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { createMemoryTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'
import { secret } from '../../../secrets/watch.ts'

const ALICE = '0b6f1e2c-8c1f-8000-8000-000000000001'
const WANTED: Wanted = { login: 'login-of-alice', provider: 'github', owner: ALICE }
const BROWSER = { id: 'b'.repeat(43) }
const GIVEN = {
  owner: '',
  subject: 'alice-there',
  accessToken: secret('a-token-of-github'),
  refreshToken: secret('r-1'),
}

function start(onDemand = ['github', 'wiki']) {
  let now = 1_000_000
  const store = createMemoryStore({ now: () => now })
  const tokens = createMemoryTokenStore()
  const flows: LoginFlow[] = []
  const grants = new Map<string, string>([[WANTED.login, ALICE]])
  const ended = new Set<string>()
  const keyed = keyedHash(['k'.repeat(32)])
  const carried = new CarriedTokens({ tokens, keepS: 60, log: () => pino({ level: 'silent' }) })
  const links = new LoginLinks({
    store,
    tokens,
    carried,
    keyed: () => keyed,
    grants: {
      find: async (login) => (grants.has(login) ? { accountId: grants.get(login) } : undefined),
      identifiedBy: async () => 'corp',
      findUser: async () => ({}),
      haveEnded: async () => false,
    },
    revocations: { has: (login) => ended.has(login) },
    login: {
      async pass(flow) {
        flows.push(flow as LoginFlow)
        return { kind: 'respond', response: new Response() }
      },
    },
    primaries: ['corp'],
    onDemand: new Set(onDemand),
    perUser: new Set(),
    url: 'https://gateway/oauth/link',
    loginS: 600,
    keepS: 60,
    now: () => now,
  })
  const offer = ({ owner, login, provider }: Wanted) => links.offer({ login, provider }, { subject: owner, login })
  const readTicket = async (wanted = WANTED) => {
    const { url } = await offer(wanted)
    return secret(new URL(url).searchParams.get('ticket') ?? '')
  }
  const begin = (ticket: string, browser = BROWSER) => links.begin(ticket, links.formToken(ticket, browser), browser)
  /** Completes all providers as this user. */
  async function done(subject = ALICE, wanted = WANTED): Promise<Extract<LoginStep, { kind: 'done' }>> {
    assert.is((await begin(await readTicket(wanted))).kind, 'respond')
    const { uid } = flows.at(-1) as LoginFlow
    for (const provider of ['corp', wanted.provider])
      await tokens.put({ login: 'passing', provider }, GIVEN, { ttlMs: 60_000 })
    return { kind: 'done', purpose: 'link', uid, login: 'passing', by: 'corp', user: { subject } }
  }
  const getTokens = (login: string, provider = 'github') => tokens.get({ login, provider })
  return {
    links,
    offer,
    store,
    tokens,
    carried,
    flows,
    grants,
    ended,
    readTicket,
    begin,
    done,
    getTokens,
    pass: (ms: number) => (now += ms),
  }
}

test('a thousand requests at once get one link; another login or provider gets another one', async () => {
  const { offer, readTicket } = start()
  const all = await Promise.all(Array.from({ length: 1000 }, () => offer(WANTED)))
  assert.is(new Set(all.map(({ url }) => url)).size, 1)
  assert.is(new Set(all.map(({ id }) => id)).size, 1)
  const others = [WANTED, { ...WANTED, provider: 'wiki' }, { ...WANTED, login: 'another-login' }]
  assert.is(new Set(await Promise.all(others.map((wanted) => readTicket(wanted)))).size, 3)
})

test('a link is valid for ten minutes, and each request gets one with at least five left', async () => {
  const { links, readTicket, begin, pass } = start()
  const first = await readTicket()
  pass(299_000)
  assert.is(await readTicket(), first)
  pass(300_000)
  assert.ok(await links.find(first))
  pass(2_000)
  assert.is(await links.find(first), undefined)
  assert.is((await begin(first)).kind, 'refused')
  const second = await readTicket()
  pass(301_000)
  const third = await readTicket()
  assert.is.not(third, second)
  // Only one may be in progress.
  assert.is((await begin(second)).kind, 'refused')
  assert.is((await begin(third)).kind, 'respond')
})

test('a link leads to the primary provider first, and names the user whom it is for', async () => {
  const { readTicket, begin, flows } = start()
  await begin(await readTicket())
  const [{ uid, ...flow }] = flows as [LoginFlow]
  assert.equal(flow, { purpose: 'link', providers: ['corp', 'github'], subject: ALICE })
  assert.match(uid, /^[\w-]{43}$/)
})

test('after a link was used, the next request gets a new one, and the old one stays used', async () => {
  const { readTicket, begin } = start()
  const first = await readTicket()
  assert.is((await begin(first)).kind, 'respond')
  const second = await readTicket()
  assert.is.not(second, first)
  assert.is((await begin(first)).kind, 'refused')
  assert.is((await begin(second)).kind, 'respond')
})

test('the provider’s tokens are stored for the login that asked, and for its user', async () => {
  const { links, done, getTokens } = start()
  assert.is(await links.finish(await done()), 'github')
  const { version: _, ...set } = (await getTokens(WANTED.login)) ?? { version: '' }
  assert.equal(set, { ...GIVEN, owner: ALICE })
  // The first provider's tokens only identified the user and are not kept.
  assert.is(await getTokens(WANTED.login, 'corp'), undefined)
  assert.is(await getTokens('passing'), undefined)
  assert.is(await getTokens('passing', 'corp'), undefined)
})

test('nothing is stored for another person, an ended login, or the login of another user', async () => {
  const spoils: [string, (parts: ReturnType<typeof start>) => unknown, string?][] = [
    ['another user', () => undefined, 'somebody-else'],
    ['revoked', ({ ended }) => ended.add(WANTED.login)],
    ['forgotten', ({ grants }) => grants.delete(WANTED.login)],
    ['of another user', ({ grants }) => grants.set(WANTED.login, 'somebody-else')],
    ['lost tokens', ({ tokens }) => tokens.removeLogin('passing')],
  ]
  for (const [why, spoil, subject] of spoils) {
    const parts = start()
    const step = await parts.done(subject)
    await spoil(parts)
    assert.is(await parts.links.finish(step), undefined, why)
    for (const login of [WANTED.login, 'passing', `of user ${ALICE}`, 'of user somebody-else'])
      for (const provider of ['corp', 'github'])
        assert.is(await parts.getTokens(login, provider), undefined, `${why}: ${login}`)
  }
})

test('a login that ends while a link is completed stores nothing', async () => {
  const parts = start()
  const step = await parts.done()
  const { tokens, grants, links, getTokens } = parts
  const put = tokens.put.bind(tokens)
  tokens.put = async (place, ...rest) => {
    if (place.login === WANTED.login) grants.delete(WANTED.login)
    return put(place, ...rest)
  }
  assert.is(await links.finish(step), undefined)
  assert.is(await getTokens(WANTED.login), undefined)
  assert.is((await getTokens(`of user ${ALICE}`))?.refreshToken, undefined)
})

test('a visit to the providers completes a link once, and only if a link has begun it', async () => {
  const { links, done, getTokens } = start()
  const step = await done()
  assert.is(await links.finish({ ...step, uid: 'u'.repeat(43) }), undefined)
  assert.is(await getTokens(WANTED.login), undefined)
  const again = await done()
  assert.is(await links.finish(again), 'github')
  assert.is(await links.finish(again), undefined)
})

test('if a provider sends no refresh token, the user’s earlier one stays in use', async () => {
  const { links, tokens, done, getTokens } = start()
  await links.finish(await done())
  const step = await done()
  const { refreshToken: _, ...rest } = GIVEN
  await tokens.put({ login: 'passing', provider: 'github' }, rest, { ttlMs: 60_000 })
  assert.is(await links.finish(step), 'github')
  assert.is((await getTokens(WANTED.login))?.refreshToken, GIVEN.refreshToken)
})

test('a provider that is no longer on demand can’t be linked', async () => {
  const { begin, readTicket } = start([])
  assert.is((await begin(await readTicket())).kind, 'refused')
})

test.run()
