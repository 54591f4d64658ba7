import { randomBytes } from 'node:crypto'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createAccountSessions } from '../../../../dataplane/authserver/account/account-sessions.ts'
import { createClients } from '../../../../dataplane/authserver/clients/clients.ts'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import { createConsents } from '../../../../dataplane/authserver/login/consents.ts'
import { createGrants } from '../../../../dataplane/authserver/provider/grants.ts'
import { refreshTokens } from '../../../../dataplane/authserver/provider/refresh-tokens.ts'
import { Revocations } from '../../../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore, memoryParts } from '../../../../dataplane/authserver/store/memory-store.ts'
import { PublicError } from '../../../../dataplane/server/errors.ts'
import { networkHolder } from '../../../../dataplane/server/network-of.ts'
import { createMemoryTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'

/** Checks that what one network or user stores in memory evicts no one else's. */

const MIB = 1024 * 1024
const TTL_S = 30 * 24 * 60 * 60
const keyed = keyedHash(['s'.repeat(32)])
const log = pino({ level: 'silent' })
const randomText = (bytes: number) => randomBytes(bytes).toString('base64url')
const isRefused = async (pending: Promise<unknown>) =>
  pending.then(
    () => false,
    (error) => error instanceof PublicError && error.status === 503,
  )

/** The authorization server's memory in a container of 128 MiB. */
function start() {
  let now = Date.now()
  const parts = memoryParts(128 * MIB)
  const store = createMemoryStore({ mostBytes: parts.records, now: () => now })
  const tokens = createMemoryTokenStore({ mostBytes: parts.tokens })
  const carried = new CarriedTokens({ tokens, keepS: TTL_S, log: () => log })
  const revocations = new Revocations(store, 3600, log)
  const times = { ttlS: TTL_S, freshS: TTL_S }
  const grants = createGrants({ store, revocations, tokens, providers: ['corp'], ...times, log: () => log })
  const rules = { scopes: ['s'], baselineScopes: [], allowConfidential: false, forceConfidential: [] }
  const clients = createClients({ store, rules, configured: [] })
  const refresh = refreshTokens(store, keyed)
  const consents = createConsents(store, () => keyed)
  const accounts = createAccountSessions(
    store,
    () => keyed,
    () => undefined,
  )

  /** Stores a login as the endpoints do and returns its grant id. `by`: the holders that it counts for. */
  async function logIn(subject: string, by?: readonly string[]): Promise<string> {
    const [grantId, browser] = [randomText(32), { id: randomText(32) }]
    const consent = { clientId: 'c', redirectUri: 'https://c.example/cb', resource: 'r', scopes: ['s'] }
    if (by === undefined) await consents.keep(browser, consent, subject)
    const set = { owner: subject, subject, accessToken: randomText(600), refreshToken: randomText(48) }
    await tokens.put({ login: grantId, provider: 'corp' }, set, { ttlMs: TTL_S * 1000, holder: by })
    if (by === undefined) await carried.keep('corp', set)
    await grants.describe(grantId, { user: { name: 'Some Person' } }, by ?? [subject])
    await grants.keep(grantId, { accountId: subject, clientId: 'c', iat: 1, openid: { scope: 's' } })
    await refresh.keep(refresh.make(grantId, 0), { accountId: subject, grantId, clientId: 'c', scope: 's' }, TTL_S)
    return grantId
  }

  /** Returns whether everything that a login needs is still stored. */
  async function isAlive(grantId: string): Promise<boolean> {
    const found = [await store.get('grant', grantId), await store.get('refresh', grantId)]
    return ![...found, await tokens.get({ login: grantId, provider: 'corp' })].includes(undefined)
  }

  const register = async (address: string) =>
    (await clients.register({ redirect_uris: ['https://c.example/cb'], client_name: 'n'.repeat(200) }, address))
      .client_id
  return {
    ...{ store, tokens, grants, clients, revocations, accounts, logIn, lives: isAlive, register },
    pass: (ms: number) => void (now += ms),
  }
}

test('one registration a second from a network leaves room for everybody else', async () => {
  const { register, clients, pass, store } = start()
  const early = await register('198.51.100.1')
  const used = await register('198.51.100.2')
  await clients.renew(used, ['alice'])
  let isFull = false
  for (let count = 0; count < 5_000; count++) {
    pass(1_000)
    if (await isRefused(register('192.0.2.1'))) isFull = true
  }
  assert.ok(isFull, 'nothing was full: the test needs more registrations')
  const late = await Promise.all(Array.from({ length: 150 }, (_, index) => register(`203.0.113.${index}`)))
  for (const id of [early, used, ...late]) assert.ok(await clients.find(id), id)
  // Its own older logins are evicted, except those of the last hour.
  pass(60 * 60_000)
  assert.ok(await clients.find(await register('192.0.2.1')))
  assert.ok(store.size < 6_000)
})

test('an IPv6 /48 takes no more than one address, and does not affect its neighbours', async () => {
  const { register, clients, pass } = start()
  const neighbour = await register('2001:db8:0:100::1')
  for (let count = 0; count < 5_000; count++) {
    pass(1_000)
    await isRefused(register(`2001:db8:0:${(count % 256).toString(16)}::1`))
  }
  for (const address of ['192.0.2.1', '2001:db8:1::1']) assert.ok(await clients.find(await register(address)))
  assert.ok(await clients.find(neighbour))
})

test('a user with endless clients evicts no client of others, and leaves room for new ones', async () => {
  const { register, clients, pass } = start()
  const used = await register('198.51.100.2')
  await clients.renew(used, ['alice'])
  const fresh = await register('198.51.100.3')
  for (let count = 0; count < 5_000; count++) {
    pass(1_000)
    const id = await register(`192.0.${count % 200}.1`)
    await clients.renew(id, ['mallory'])
  }
  for (const id of [used, fresh]) assert.ok(await clients.find(id))
  for (let index = 0; index < 100; index++) assert.ok(await clients.find(await register(`203.0.113.${index}`)))
})

test('three thousand logins of one account evict no other account’s', async () => {
  const { logIn, lives } = start()
  const bobs = await logIn('bob')
  const mallorys: string[] = []
  for (let count = 0; count < 3_000; count++) mallorys.push(await logIn('mallory'))
  assert.ok(await lives(bobs), 'the login of somebody else is gone')
  assert.not.ok(await lives(mallorys[0] as string), 'nothing had to go: the test needs more logins')
  assert.ok(await lives(mallorys.at(-1) as string))
  const late = []
  for (let index = 0; index < 100; index++) late.push(await logIn(`person-${index}`))
  for (const grant of [bobs, ...late]) assert.ok(await lives(grant))
})

test('logins without a known user count for their network', async () => {
  const { logIn, lives } = start()
  const bobs = await logIn('bob')
  for (let count = 0; count < 3_000; count++) await logIn(`nobody-${count}`, ['192.0.2.1'])
  const theirs = await logIn('nobody-at-all', ['198.51.100.1'])
  for (const grant of [bobs, theirs]) assert.ok(await lives(grant))
})

test('pages of one user evict no page of others, and no login under way', async () => {
  const { accounts, store } = start()
  const [browser, other] = [{ id: 'browser' }, { id: 'other' }]
  const bobs = await accounts.begin({ user: { subject: 'bob' }, by: 'corp' }, browser)
  await store.set('login', 'under-way', 'x', 600)
  for (let count = 0; count < 20_000; count++) await accounts.begin({ user: { subject: 'mallory' }, by: 'corp' }, other)
  assert.ok(store.size < 5_000, `${store.size}: nothing had to go`)
  assert.ok(await accounts.find(bobs.secret, browser))
  assert.is(await store.get('login', 'under-way'), 'x')
})

test('used assertions of one subject leave room for those of others', async () => {
  const { store } = start()
  let used = 0
  const mark = (name: string, who: string) => store.add('assertion', name, '1', { ttlS: 300, by: [who] })
  while (!(await isRefused(mark(`m${used}`, 'mallory')))) used++
  assert.ok(used > 1_000, String(used))
  for (let count = 0; count < 500; count++) assert.ok(await mark(`b${count}`, 'bob'))
  assert.ok(await isRefused(mark('another', 'mallory')))
  // No used assertion is accepted again.
  assert.is(await mark('m0', 'mallory'), false)
})

for (const [who, kind, holderOf] of [
  ['one issuer with many subjects', 'assertion', (index: number) => ['https://mallory.example', `subject-${index}`]],
  ['one /48 of IPv6', 'clientAssertion', (index: number) => networkHolder(`2001:db8:0:${index.toString(16)}::1`)],
  ['one /48 of IPv6', 'proof', (index: number) => networkHolder(`2001:db8:0:${index.toString(16)}::1`)],
] as const)
  test(`${kind}: used assertions of ${who} leave room for those of others`, async () => {
    const { store } = start()
    let used = 0
    while (!(await isRefused(store.add(kind, `m${used}`, '1', { ttlS: 300, by: holderOf(used) })))) used++
    assert.ok(used > 1_000, String(used))
    for (let count = 0; count < 300; count++)
      assert.ok(await store.add(kind, `b${count}`, '1', { ttlS: 300, by: ['bob', 'bob'] }))
    assert.is(await store.add(kind, 'm0', '1', { ttlS: 300, by: holderOf(0) }), false)
  })

test('revocations by one user do not undo those of another', async () => {
  const { revocations, store } = start()
  await revocations.add('bobs', ['bob'])
  for (let count = 0; count < 210_000; count++) await revocations.add(`m${count}`, ['mallory'])
  assert.ok(revocations.has('bobs'))
  assert.ok(revocations.has('m209999'))
  assert.ok((await store.revokedSince(0)).includes('bobs'))
  revocations.close()
})

test.run()
