/** Checks which consents are remembered, and how they are forgotten. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyedHash } from '../../../../dataplane/authserver/keys/keyed-hash.ts'
import { CONSENT_S, createConsents } from '../../../../dataplane/authserver/login/consents.ts'
import { createMemoryStore } from '../../../../dataplane/authserver/store/memory-store.ts'

const [OLD, NEW] = ['an old secret of at least thirty-two bytes', 'a new secret of at least thirty-two bytes']
const [HERE, THERE] = [{ id: 'this-browser' }, { id: 'that-browser' }]
const ASKED = { clientId: 'c', redirectUri: 'https://c.example/cb', resource: 'https://r.example/mcp', scopes: ['a'] }
const OTHER = { ...ASKED, clientId: 'other' }

function start() {
  let [now, secrets] = [1_000_000, [OLD]]
  const consents = createConsents(createMemoryStore({ now: () => now }), () => keyedHash(secrets))
  const pass = (ms: number) => void (now += ms)
  const rotate = (...next: string[]) => void (secrets = next)
  return { consents, pass, rotate }
}

test('after revoking a client, the user is asked again in every browser, for that client alone', async () => {
  const { consents } = start()
  for (const browser of [HERE, THERE])
    for (const request of [ASKED, OTHER]) await consents.keep(browser, request, 'alice')
  await consents.forgetUser('bob', 'c')
  assert.is(await consents.find(HERE, ASKED), 'alice')
  await consents.forgetUser('alice', 'c')
  for (const browser of [HERE, THERE]) {
    assert.is(await consents.find(browser, ASKED), undefined)
    assert.is(await consents.find(browser, OTHER), 'alice')
  }
  // A new consent in one browser does not restore that of the other.
  await consents.keep(HERE, ASKED, 'alice')
  assert.is(await consents.find(HERE, ASKED), 'alice')
  assert.is(await consents.find(THERE, ASKED), undefined)
  await consents.forgetUser('alice')
  for (const request of [ASKED, OTHER]) assert.is(await consents.find(HERE, request), undefined)
})

test('consent to other scopes does not bring back revoked ones', async () => {
  const { consents } = start()
  await consents.keep(HERE, { ...ASKED, scopes: ['a', 'b'] }, 'alice')
  await consents.forgetUser('alice', 'c')
  await consents.keep(HERE, ASKED, 'alice')
  assert.is(await consents.find(HERE, { ...ASKED, scopes: ['b'] }), undefined)
})

test('consent is for one resource', async () => {
  const { consents } = start()
  await consents.keep(HERE, ASKED, 'alice')
  assert.is(await consents.find(HERE, { ...ASKED, resource: 'https://other.example/mcp' }), undefined)
})

test('each use extends consent by thirty days, also after a change of secrets', async () => {
  const { consents, pass, rotate } = start()
  await consents.keep(HERE, ASKED, 'alice')
  for (const secrets of [[OLD], [OLD, NEW], [NEW, OLD], [NEW]]) {
    rotate(...secrets)
    pass((CONSENT_S - 60) * 1000)
    assert.is(await consents.find(HERE, ASKED), 'alice', secrets.join())
    await consents.keep(HERE, ASKED, 'alice')
  }
  await consents.forgetUser('alice', 'c')
  assert.is(await consents.find(HERE, ASKED), undefined)
  await consents.keep(HERE, ASKED, 'alice')
  pass(CONSENT_S * 1000 + 1)
  assert.is(await consents.find(HERE, ASKED), undefined)
})

test.run()
