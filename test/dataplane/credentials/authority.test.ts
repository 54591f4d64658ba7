/** Checks which tokens share a cached credential: those of one user with the same rights, and no others. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { CredentialConfig } from '../../../dataplane/config/credential.ts'
import { createStrategy } from '../../../dataplane/credentials/index.ts'

const tokenUrl = 'https://idp.example/token'
const targets = { idpTokenUrl: tokenUrl, targetTokenUrl: tokenUrl, targetAudience: 'https://target.example' }
const fallbackRoleArn = 'arn:aws:iam::123456789012:role/all'
const configs = (own: { readonly subjectProviderName?: string }): readonly CredentialConfig[] => [
  { type: 'tokenExchange', tokenExchange: { tokenUrl, ...own } },
  { type: 'xaa', xaa: { ...targets, ...own } },
  { type: 'awsSts', awsSts: { region: 'eu-west-1', fallbackRoleArn, ...own } },
]

const nest = (levels: number): unknown => JSON.parse('{"sub":"a","act":'.repeat(levels) + 1 + '}'.repeat(levels))
const different: readonly Readonly<Record<string, unknown>>[] = [
  {},
  { scope: 'a' },
  { scope: 'a b' },
  { scp: 'c' },
  ...['azp', 'client_id', 'cid', 'appid', 'acr'].map((name) => ({ [name]: 'x' })),
  { azp: 'y' },
  { azp: null },
  { act: { sub: 'x' } },
  { act: { sub: 'x', act: { sub: 'y' } } },
  { act: [{ sub: 'x' }] },
  { act: nest(50_000) },
  { may_act: { sub: 'x' } },
  { authorization_details: [{ type: 'x' }] },
  { org: 'A' },
  { org: 'B' },
  { groups: ['a', 'b'] },
  { groups: ['a'] },
  { groups: [['a', 'b']] },
  { aud: 'https://other.example' },
  { email: 'alice@example.com' },
  { 'https://claims.example/tenant': { id: 7 } },
  { ['__proto__']: 'x' },
]
const alike: readonly Readonly<Record<string, unknown>>[] = [
  { scope: 'a b', jti: '1', iat: 1, exp: 2 },
  { scope: 'b a', jti: '2', iat: 3, exp: 4 },
  { scope: ['a', 'b', 'a'] },
  { scope: 'b', scp: ['a'] },
  { scope: 'a b', auth_time: 7, nbf: 1, updated_at: 5, nonce: 'n', at_hash: 'h' },
  { scope: 'a b', uti: 'u', aio: 'a', rh: 'r', event_id: 'e' },
]
const sameInOrder: typeof alike = [
  { groups: ['a', 'b'], org: { id: 1, name: 'A' } },
  { org: { name: 'A', id: 1 }, groups: ['b', 'a'] },
]

for (const config of configs({}))
  test(`${config.type}: a token with other rights gets a credential of its own`, async () => {
    const strategy = createStrategy(config, { directory: '.' })
    const countVariants = (all: typeof alike) => new Set(all.map((claims) => buildKey({ sub: 'alice', ...claims })))
    const buildKey = (claims: (typeof alike)[0]) =>
      JSON.stringify([strategy.variant?.({ claims }), strategy.digest?.({ claims })])
    assert.is(countVariants(different).size, different.length)
    assert.is(countVariants(alike).size, 1)
    assert.is(countVariants(sameInOrder).size, 1)
    await strategy.close()
  })

for (const config of configs({ subjectProviderName: 'corp' }))
  test(`${config.type} of a login’s token: the caller’s own token does not matter`, async () => {
    const strategy = createStrategy(config, { directory: '.' })
    const ofPeople = different.filter(({ act }) => act === undefined)
    const ofActors = different.filter(({ act }) => act !== undefined)
    const listVariants = (all: typeof different) => new Set(all.map((claims) => strategy.variant?.({ claims })))
    assert.is(listVariants(ofPeople).size, 1)
    // A token that acts for a user has no access to the user's linked accounts.
    assert.is(listVariants(ofActors).size, 1)
    assert.is(listVariants(different).size, 2)
    assert.is(new Set(different.map((claims) => strategy.digest?.({ claims }))).size, 1)
    await strategy.close()
  })

test.run()
