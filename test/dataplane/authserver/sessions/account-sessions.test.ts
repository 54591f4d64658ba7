/** Checks how long users stay signed in, and what their pages may contain. */
import { Hono } from 'hono'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createAccountSessions, SESSION_S } from '../../../../dataplane/authserver/account/account-sessions.ts'
import { dropSession, holdSession } from '../../../../dataplane/authserver/endpoint/account.ts'
import type { EndpointEnv, EndpointParts } from '../../../../dataplane/authserver/endpoint/parts.ts'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'

const [OLD, NEW] = ['an old secret of at least thirty-two bytes', 'a new secret of at least thirty-two bytes']
const HERE = { id: 'this-browser' }
const USER = { subject: 'alice', name: 'Alice' }
const SIGN_IN = { user: USER, by: 'corp' }

let now = 1_000_000
let secrets = [OLD]
let mark: string | undefined = 'the provider'
const open = () =>
  createAccountSessions(
    createMemoryStore({ now: () => now }),
    () => keyedHash(secrets),
    () => mark,
  )
test.before.each(() => {
  secrets = [OLD]
  mark = 'the provider'
})

test('a session ends after fifteen minutes, however much it is used', async () => {
  const sessions = open()
  const { secret } = await sessions.begin(SIGN_IN, HERE)
  for (let passed = 0; passed < SESSION_S - 60; passed += 60) {
    assert.equal((await sessions.find(secret, HERE))?.user, USER)
    now += 60_000
  }
  assert.ok(await sessions.find(secret, HERE))
  now += 60_001
  assert.is(await sessions.find(secret, HERE), undefined)
})

test('a session belongs to one browser', async () => {
  const sessions = open()
  const { secret } = await sessions.begin(SIGN_IN, HERE)
  assert.is(await sessions.find(secret, { id: 'another' }), undefined)
  for (const wrong of ['', 'x', `${secret}x`, secret.toUpperCase(), 'a'.repeat(43), 'a'.repeat(100_000)])
    assert.is(await sessions.find(wrong, HERE), undefined)
  assert.is.not((await sessions.begin(SIGN_IN, HERE)).secret, secret)
  await sessions.end(secret)
  assert.is(await sessions.find(secret, HERE), undefined)
})

test('a session ends with the provider that its user signed in at, and another of the same name does not continue it', async () => {
  const sessions = open()
  const { secret } = await sessions.begin(SIGN_IN, HERE)
  for (const other of [undefined, 'another provider']) {
    mark = other
    assert.is(await sessions.find(secret, HERE), undefined)
  }
  mark = 'the provider'
  assert.equal((await sessions.find(secret, HERE))?.user, USER)
})

test('the stored session does not have its secret', async () => {
  const store = createMemoryStore()
  const written: string[] = []
  const { set } = store
  const watched = {
    ...store,
    set(...all: Parameters<typeof set>) {
      written.push(all.join(' '))
      return set(...all)
    },
  }
  const { secret } = await createAccountSessions(
    watched,
    () => keyedHash([OLD]),
    () => mark,
  ).begin(SIGN_IN, HERE)
  assert.is(written.length, 1)
  assert.not.match(written.join(), secret)
  assert.not.match(written.join(), HERE.id)
})

test('a form token is for one action of one session', async () => {
  const sessions = open()
  const [mine, other] = [await sessions.begin(SIGN_IN, HERE), await sessions.begin(SIGN_IN, HERE)]
  const proof = sessions.makeProof(mine, 'unlink', 'grant', 'corp')
  assert.ok(sessions.isProof(proof, mine, 'unlink', 'grant', 'corp'))
  assert.not.ok(sessions.isProof(proof, other, 'unlink', 'grant', 'corp'))
  for (const what of [
    ['unlink', 'grant'],
    ['unlink', 'grantcorp'],
    ['unlink', 'grant', 'corp', ''],
    ['revoke', 'grant', 'corp'],
  ])
    assert.not.ok(sessions.isProof(proof, mine, ...what), what.join())
  for (const wrong of ['', 'x', `${proof}=`]) assert.not.ok(sessions.isProof(wrong, mine, 'unlink', 'grant', 'corp'))
})

test('rotating a secret ends no session and no page', async () => {
  const sessions = open()
  const session = await sessions.begin(SIGN_IN, HERE)
  const proof = sessions.makeProof(session, 'page')
  secrets = [NEW, OLD]
  assert.ok(await sessions.find(session.secret, HERE))
  assert.ok(sessions.isProof(proof, session, 'page'))
  await sessions.end(session.secret)
  assert.is(await sessions.find(session.secret, HERE), undefined)
})

test('over https only this host can set its cookie, and signing out removes it', async () => {
  const accounts = open()
  const parts = { settings: { isSecure: true }, accounts } as unknown as EndpointParts
  const session = await accounts.begin(SIGN_IN, HERE)
  const app = new Hono<EndpointEnv>()
  app.get('/in', (c) => {
    holdSession(parts, c, session)
    return c.text('')
  })
  app.get('/out', async (c) => {
    await dropSession(parts, c)
    return c.text('')
  })
  const [setCookie = ''] = (await app.request('/in')).headers.getSetCookie()
  const cookie = `__Host-portico-account=${session.secret}`
  assert.is(setCookie, `${cookie}; Max-Age=900; Path=/; HttpOnly; Secure; SameSite=Lax`)
  const [dropped = ''] = (await app.request('/out', { headers: { cookie } })).headers.getSetCookie()
  assert.match(dropped, /^__Host-portico-account=; Max-Age=0; Path=\/;.* Secure/)
  assert.is(await accounts.find(session.secret, HERE), undefined)
})

test.run()
