/** What the end of a login takes with it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CarriedTokens } from '../../../dataplane/authserver/login/carried-tokens.ts'
import { createGrants } from '../../../dataplane/authserver/provider/grants.ts'
import { Revocations } from '../../../dataplane/authserver/provider/revocations.ts'
import { createMemoryStore } from '../../../dataplane/authserver/store/memory-store.ts'
import { createMemoryTokenStore } from '../../../dataplane/upstream-tokens/index.ts'
import { keptLog } from '../../support/kept-log.ts'

const TTL = { ttlMs: 60_000 }
const set = { owner: 'us', subject: 'alice', accessToken: 'a' }

async function loggedIn() {
  const { log } = keptLog()
  const [store, tokens] = [createMemoryStore(), createMemoryTokenStore()]
  const carried = new CarriedTokens({ tokens, keepS: 60, log })
  const revocations = new Revocations(store, 60, log)
  const grants = createGrants({
    ...{ store, revocations, tokens, log, ttlS: 60, freshS: 60, providers: ['corp'] },
    onEnded: (provider, ended) => carried.forget(provider, ended),
  })
  await tokens.put({ login: 'first', provider: 'corp' }, { ...set, refreshToken: 'one' }, TTL)
  await carried.keep('corp', { ...set, refreshToken: 'one' })
  return { grants, tokens, carried, close: () => revocations.close() }
}

test('a login that has been ended leaves later ones no refresh token', async () => {
  const { grants, tokens, carried, close } = await loggedIn()
  assert.is((await carried.completed('corp', set)).refreshToken, 'one')
  await grants.end('first')
  assert.is(await tokens.get({ login: 'first', provider: 'corp' }), undefined)
  assert.is((await carried.completed('corp', set)).refreshToken, undefined)
  close()
})

test('what another login has brought since then stays', async () => {
  const { grants, tokens, carried, close } = await loggedIn()
  await tokens.put({ login: 'second', provider: 'corp' }, { ...set, refreshToken: 'two' }, TTL)
  await carried.keep('corp', { ...set, refreshToken: 'two' })
  await grants.end('first')
  assert.is((await carried.completed('corp', set)).refreshToken, 'two')
  assert.is((await tokens.get({ login: 'second', provider: 'corp' }))?.refreshToken, 'two')
  close()
})

test.run()
