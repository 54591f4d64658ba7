/**
 * Tests a session that continues at another replica (Redis): with its user's own credential, a new authorization, and
 * for nobody else.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { AuthzConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { AUDIENCE, buildExchangingBackend } from '../../../support/gateway/exchanging-gateway.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import {
  buildExchanged,
  readSubject,
  respond,
  startTokenEndpoint,
  type TestTokenEndpoint,
} from '../../../support/network/token-endpoint.ts'
import { type PersonalServer, startPersonalServer } from '../../../support/servers/personal-server.ts'

const faults: string[] = []
const eras = ['modern', 'legacy'] as const
let idp: IdentityProvider
let endpoint: TestTokenEndpoint
let servers: readonly PersonalServer[]
const stage = new RedisStage(test, () => '')
const { cleanups } = stage

test.before(async () => {
  idp = await startIdentityProvider()
  endpoint = await startTokenEndpoint()
  endpoint.answer = ({ form }, response) => {
    respond(response, 200, buildExchanged(`of-${readSubject(form['subject_token'])}-for-${form['audience']}`))
  }
  servers = await Promise.all(eras.map((era) => startPersonalServer({ name: era, era, faults })))
})
test.after(async () => {
  await Promise.all([idp.close(), endpoint.close(), ...servers.map((server) => server.close())])
  assert.equal(faults, [])
})

const ALL: AuthzConfig = {
  policies: [
    'permit(principal, action, resource);',
    'forbid(principal, action, resource in Backend::"modern") unless { principal.claim_level >= 2 };',
  ],
}

/** Starts two replicas of a gateway; also returns their configuration. */
async function twoReplicas(): Promise<readonly [GatewayUnderTest, GatewayUnderTest, TestConfig]> {
  const config = stage.config({
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE } },
    authz: ALL,
    backends: eras.map((era, index) =>
      buildExchangingBackend(era, (servers[index] as PersonalServer).url, endpoint, {
        clientId: undefined as never,
        clientSecretFile: undefined as never,
      }),
    ),
  })
  const replicas = [await startGateway(config), await startGateway(config)] as const
  for (const replica of replicas) {
    cleanups.push(() => replica.close())
    await eventually('it is ready', async () => (await fetch(`${replica.adminUrl}/readyz`)).ok)
  }
  for (const { seen } of servers) seen.length = 0
  endpoint.requests.length = 0
  return [...replicas, config]
}

const bearer = async (sub: string, level = 2) => ({
  authorization: `Bearer ${await idp.mint({ sub, aud: AUDIENCE, level })}`,
})

const call = (who: string, backend: string) => rpc('tools/call', { name: `${backend}_t-${who}`, arguments: { who } })

test('another replica continues for the same user, in the same session with the backend', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url, await bearer('alice'))
  for (const era of eras)
    assert.is((await post(one.url, call('alice', era), session)).json.result.content[0].text, 'alice')
  endpoint.requests.length = 0
  const renewed = { ...session, ...(await bearer('alice')) }
  for (const era of eras)
    assert.is((await post(two.url, call('alice', era), renewed)).json.result.content[0].text, 'alice')
  const exchanges = endpoint.requests.map(({ form }) => form['subject_token'])
  assert.equal([...new Set(exchanges)], [renewed.authorization.slice('Bearer '.length)], 'the caller of this token')
  const used = servers[1]?.calls('tools/call').map(({ headers }) => headers['mcp-session-id'])
  assert.is(new Set(used).size, 1)
  await one.close()
  cleanups.splice(cleanups.length - 2, 1)
  assert.is(
    (await post(two.url, call('alice', 'legacy'), renewed)).json.result.content[0].text,
    'alice',
    'one has gone',
  )
})

test('a stranger with the session’s id is refused at each replica, and the session lives on', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url, await bearer('alice'))
  await post(one.url, call('alice', 'legacy'), session)
  const stolen = { ...session, ...(await bearer('mallory')) }
  for (const { url } of [two, one]) {
    for (const body of [call('alice', 'legacy'), call('mallory', 'legacy'), rpc('tools/list'), rpc('ping')])
      assert.is((await post(url, body, stolen)).status, 404)
    const stream = (await EventReader.listen(url, stolen)).leftBy(cleanups)
    assert.is(stream.status, 404)
    assert.is((await fetch(url, { method: 'DELETE', headers: stolen })).status, 404)
  }
  const calls = servers[1]?.calls('tools/call').map(({ headers }) => headers.authorization)
  assert.equal(calls, ['Bearer of-alice-for-legacy'])
  assert.is((await post(two.url, call('alice', 'legacy'), session)).json.result.content[0].text, 'alice')
})

test('a replica that continues a session judges by its own policies and the request’s claims', async () => {
  const [one, two, config] = await twoReplicas()
  const session = await openSession(one.url, await bearer('alice'))
  const namesAt = async (url: string, headers: Record<string, string>) =>
    (await post(url, rpc('tools/list'), headers)).json.result.tools.map(({ name }: { name: string }) => name).join()
  const all = 'legacy_common,legacy_t-alice,modern_common,modern_t-alice'
  const sortNames = (names: string) => names.split(',').sort().join()
  assert.is(sortNames(await namesAt(one.url, session)), all)
  const lesser = { ...session, ...(await bearer('alice', 1)) }
  assert.is((await post(two.url, call('alice', 'modern'), lesser)).status, 403)
  assert.is(sortNames(await namesAt(two.url, lesser)), 'legacy_common,legacy_t-alice')
  assert.is((await post(two.url, call('alice', 'modern'), session)).status, 200)
  const { config: before } = await two.status()
  await two.configure({ ...config, authz: { policies: ['permit(principal, action, resource in Backend::"modern");'] } })
  await eventually('other policies', async () => (await two.status()).config !== before)
  assert.is((await post(two.url, call('alice', 'legacy'), session)).status, 403)
  assert.is(sortNames(await namesAt(two.url, session)), 'modern_common,modern_t-alice')
  assert.is((await post(one.url, call('alice', 'legacy'), session)).status, 200)
})

test('a stream that another replica continues has only the user’s own messages', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url, await bearer('alice'))
  const other = await openSession(two.url, await bearer('bob'))
  for (const [url, user, headers] of [
    [one.url, 'alice', session],
    [two.url, 'bob', other],
  ] as const)
    assert.is((await post(url, rpc('resources/subscribe', { uri: `legacy://${user}` }), headers)).status, 200)
  const alice = (await EventReader.listen(two.url, { ...session, ...(await bearer('alice')) })).leftBy(cleanups)
  const bob = (await EventReader.listen(one.url, { ...other, ...(await bearer('bob')) })).leftBy(cleanups)
  const listUris = ({ messages }: EventReader) => [...new Set(messages.flatMap(({ params }) => params?.uri ?? []))]
  await eventually('both are notified', () => {
    for (const user of ['alice', 'bob']) servers[1]?.notify(user, `legacy://${user}`)
    return listUris(alice).length > 0 && listUris(bob).length > 0
  })
  assert.equal(listUris(alice), ['legacy://alice'])
  assert.equal(listUris(bob), ['legacy://bob'])
})

test.run()
