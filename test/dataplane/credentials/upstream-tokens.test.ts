/** Exchanges tokens that an upstream provider issued at login, with a token store in memory. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { storedUpstreamTokens } from '../../../dataplane/credentials/stored-upstream-tokens.ts'
import { tokenExchange } from '../../../dataplane/credentials/token-exchange.ts'
import {
  holderOf,
  noUpstreamToken,
  noUpstreamTokens,
  type UpstreamTokens,
} from '../../../dataplane/credentials/upstream-tokens.ts'
import { createMemoryTokenStore } from '../../../dataplane/upstream-tokens/index.ts'
import { startTokenEndpoint } from '../../support/network/token-endpoint.ts'

const caller = (subject: string) => ({ issuer: 'https://i.example', subject, claims: {}, token: `jwt-of-${subject}` })

const store: UpstreamTokens = {
  accessToken: ({ subject, ...rest }, provider) =>
    subject === 'alice' && provider === 'github' && !('token' in rest)
      ? Promise.resolve({ token: 'raw-of-alice', expiresAt: undefined })
      : Promise.reject(noUpstreamToken(provider)),
  header: noUpstreamTokens.header,
  idToken: noUpstreamTokens.idToken,
  identity: noUpstreamTokens.identity,
  stored: noUpstreamTokens.stored,
}

test('with subjectProviderName the subject is that provider’s token of the same caller, never the caller’s own', async () => {
  const endpoint = await startTokenEndpoint()
  const strategy = tokenExchange(
    { tokenUrl: endpoint.url, subjectProviderName: 'github' },
    { inFolder: (file) => file, upstreamTokens: store },
  )
  await strategy.obtain(caller('alice'))
  assert.is(endpoint.requests[0]?.form['subject_token'], 'raw-of-alice')
  await assertRejects(strategy.obtain(caller('bob')), 'you have to log in at the provider "github" again')
  assert.is(endpoint.requests.length, 1, 'no token is requested for a caller without a login')
  await strategy.close()
  await endpoint.close()
})

test('without an authorization server there are no provider tokens', async () => {
  await assertRejects(noUpstreamTokens.accessToken(holderOf(caller('alice')), 'github'), 'you have to log in')
})

test('a user’s key is for the user alone: actors without the login, clients and strangers get no key and no link', async () => {
  const issuer = 'https://i.example'
  const subjects: string[] = []
  const tokens = storedUpstreamTokens(createMemoryTokenStore(), {
    issuer,
    keys: {
      has: () => true,
      findTitle: () => 'Jira',
      async header(subject) {
        subjects.push(subject)
        return { name: 'x-key', value: `key of ${subject}`, expiresAt: undefined }
      },
      offer: () => assert.unreachable() as never,
    },
  })
  const holder = { issuer, subject: 'alice', isActor: false }
  const readKey = async (more: object) => (await tokens.header({ ...holder, ...more }, 'jira')).value
  assert.is(await readKey({}), 'key of alice')
  assert.is(await readKey({ isActor: true, login: 'l' }), 'key of alice')
  await assertRejects(readKey({ isActor: true }), 'a program that acts for a user without the user’s login')
  for (const subject of ['client#ci', 'https://other.example#alice'])
    await assertRejects(readKey({ subject }), 'only people who log in here have tokens of the provider')
  await assertRejects(readKey({ issuer: 'https://other.example' }), 'log in')
  assert.equal(subjects, ['alice', 'alice'])
})

async function assertRejects(promise: Promise<unknown>, text: string): Promise<void> {
  await promise.then(
    () => assert.unreachable(),
    (error: { text: string }) => assert.match(error.text, text),
  )
}

test.run()
