/** Checks what is removed when a login ends. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CarriedTokens } from '../../../../dataplane/authserver/login/carried-tokens.ts'
import { createGrants, type Grants } from '../../../../dataplane/authserver/provider/grants.ts'
import { Revocations } from '../../../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'
import { createMemoryTokenStore } from '../../../../dataplane/upstream-tokens/index.ts'
import { recordLog } from '../../../support/kept-log.ts'

const TTL = { ttlMs: 60_000 }
const set = { owner: 'us', subject: 'alice', accessToken: 'a' }

async function loggedIn() {
  const { log } = recordLog()
  const [store, tokens] = [createMemoryStore(), createMemoryTokenStore()]
  const carried = new CarriedTokens({ tokens, keepS: 60, log: () => log })
  const revocations = new Revocations(store, 60, log)
  const grants = createGrants({
    ...{ store, revocations, tokens, log: () => log, ttlS: 60, freshS: 60, providers: ['corp'] },
    onEnded: (provider, ended) => carried.forget(provider, ended),
  })
  await tokens.put({ login: 'first', provider: 'corp' }, { ...set, refreshToken: 'one' }, TTL)
  await carried.keep('corp', { ...set, refreshToken: 'one' })
  return { grants, store, tokens, carried, revocations, close: () => revocations.close() }
}

test('a revoked login leaves no refresh token for later ones', async () => {
  const { grants, tokens, carried, close } = await loggedIn()
  assert.is((await carried.completed('corp', set)).refreshToken, 'one')
  await grants.end('first')
  assert.is(await tokens.get({ login: 'first', provider: 'corp' }), undefined)
  assert.is((await carried.completed('corp', set)).refreshToken, undefined)
  close()
})

test('tokens that another login has stored since then stay', async () => {
  const { grants, tokens, carried, close } = await loggedIn()
  await tokens.put({ login: 'second', provider: 'corp' }, { ...set, refreshToken: 'two' }, TTL)
  await carried.keep('corp', { ...set, refreshToken: 'two' })
  await grants.end('first')
  assert.is((await carried.completed('corp', set)).refreshToken, 'two')
  assert.is((await tokens.get({ login: 'second', provider: 'corp' }))?.refreshToken, 'two')
  close()
})

const grant = (clientId: string) => ({ accountId: 'us', clientId })
const listIds = async ({ ofUser }: Pick<Grants, 'ofUser'>, subject = 'us') =>
  (await ofUser(subject)).map(({ id }) => id)

test('a user’s grants are listed by last use until they expire', async () => {
  const { grants, close } = await loggedIn()
  for (const id of ['one', 'two', 'three']) await grants.keep(id, grant(id))
  await grants.keep('theirs', { ...grant('x'), accountId: 'them' })
  assert.equal(await listIds(grants), ['three', 'two', 'one'])
  await grants.renew('one', 'us')
  assert.equal(await listIds(grants), ['one', 'three', 'two'])
  await grants.end('three')
  assert.equal(await listIds(grants), ['one', 'two'])
  assert.equal(await listIds(grants, 'them'), ['theirs'])
  const [found] = await grants.ofUser('us')
  assert.equal(found?.payload, grant('one'))
  assert.ok(Math.abs((found?.endsAt ?? 0) - Date.now() - 60_000) < 30_000)
  close()
})

test('a process that is killed in the middle leaves no grant that its user can’t see', async () => {
  const { grants, store, close } = await loggedIn()
  const { set, addMember, delete: remove } = store
  const rejectKilled = () => Promise.reject(new Error('killed'))
  Object.assign(store, { addMember: rejectKilled })
  assert.ok(await catchError(grants.keep('unlisted', grant('x'))))
  assert.is(await grants.find('unlisted'), undefined)
  Object.assign(store, { addMember, set: rejectKilled })
  assert.ok(await catchError(grants.keep('unwritten', grant('x'))))
  Object.assign(store, { set })
  assert.equal(await listIds(grants), [])
  // An ended grant that is still a member is shown to nobody and can be ended again.
  await grants.keep('ended', grant('x'))
  Object.assign(store, { removeMember: rejectKilled })
  assert.ok(await catchError(grants.end('ended')))
  assert.equal(await listIds(grants), [])
  Object.assign(store, { delete: remove })
  close()
})

test('revoking everything of a user ends unlisted logins and tokens without a login, and nothing later', async () => {
  const { grants, store, revocations, close } = await loggedIn()
  const now = Math.floor(Date.now() / 1000)
  const before = { ...grant('x'), iat: now }
  for (const id of ['listed', 'hidden']) await grants.keep(id, before)
  await store.removeMember('user', 'us', 'hidden')
  await grants.keep('theirs', { ...before, accountId: 'them' })
  await grants.endAll('us')
  for (const id of ['listed', 'hidden']) assert.is(await grants.find(id), undefined, id)
  assert.ok(await grants.find('theirs'))
  assert.ok(revocations.hasEnded({ sub: 'us', iat: now }))
  assert.ok(revocations.hasEnded({ sub: 'us' }))
  assert.not(revocations.hasEnded({ sub: 'them', iat: now }))
  const after = Math.floor(Date.now() / 1000)
  assert.not(revocations.hasEnded({ sub: 'us', iat: after }))
  await grants.keep('later', { ...before, iat: after })
  assert.ok(await grants.find('later'))
  // The last end counts, even if the ends are read in another order.
  const { log } = recordLog()
  await store.revoke('before:us:5', 60)
  const late = new Revocations(store, 60, log)
  await late.ready()
  assert.ok(late.hasEnded({ sub: 'us', iat: now }))
  assert.not(late.hasEnded({ sub: 'us', iat: after }))
  late.close()
  close()
})

test('a token that is older than tokens may become by now has ended: its revocation would be forgotten', async () => {
  const { revocations, close } = await loggedIn()
  const now = Math.floor(Date.now() / 1000)
  assert.not(revocations.hasEnded({ sub: 'us', iat: now - 30 }))
  for (const iat of [now - 61, Number.NaN, undefined, 'x']) assert.ok(revocations.hasEnded({ sub: 'us', iat }))
  close()
})

test('everything of a user stays ended although the configuration has made logins shorter', async () => {
  let later = 0
  const { log } = recordLog()
  const store = createMemoryStore({ now: () => Date.now() + later })
  const revocations = new Revocations(store, 60, log)
  const at = (ttlS: number) =>
    createGrants({
      ...{ store, revocations, tokens: createMemoryTokenStore(), log: () => log, ttlS, freshS: ttlS, providers: [] },
    })
  await at(30 * 24 * 3600).keep('hidden', { ...grant('x'), iat: Math.floor(Date.now() / 1000) })
  await store.removeMember('user', 'us', 'hidden')
  await at(60).endAll('us')
  later = 29 * 24 * 3600 * 1000
  assert.is(await at(60).find('hidden'), undefined)
  revocations.close()
})

test('a user’s list that names another user’s grant does not show it', async () => {
  const { grants, store, close } = await loggedIn()
  await grants.keep('theirs', { ...grant('x'), accountId: 'them' })
  await store.addMember('user', 'us', 'theirs', 60)
  assert.equal(await listIds(grants), [])
  close()
})

const catchError = (pending: Promise<unknown>) =>
  pending.then(
    () => false,
    () => true,
  )

test.run()
