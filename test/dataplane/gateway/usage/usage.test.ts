/** Tests the counters of tool calls at `GET /usage` of the admin listener. */

import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { UsageReport } from '../../../../dataplane/gateway/usage/report.ts'
import { reportUsage } from '../../../../dataplane/gateway/usage/report.ts'
import { MOST_ROWS } from '../../../../dataplane/gateway/usage/rows.ts'
import { Usage } from '../../../../dataplane/gateway/usage/usage.ts'
import { eventually } from '../../../support/eventually.ts'
import type { GatewayUnderTest, TestConfig } from '../../../support/gateway/gateway.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { AUDIENCE } from '../../../support/gateway/guarded.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let backend: RawServer
let idp: IdentityProvider
const stage = new RedisStage(test, () => backend.url)
test.before(async () => {
  idp = await startIdentityProvider()
  backend = await startRawServer({
    era: 'both',
    tools: ['t', 'wrong'].map((name) => JSON.stringify({ name, inputSchema: { type: 'object' } })),
    call: ({ message }) => {
      const isError = (message.params as { name: string }).name === 'wrong'
      const result = { resultType: 'complete', content: [{ type: 'text', text: 'done' }], ...(isError && { isError }) }
      return JSON.stringify({ jsonrpc: '2.0', id: message.id, result })
    },
  })
})
test.after(async () => {
  await backend.close()
  await idp.close()
})

const usageAt = async ({ adminUrl }: GatewayUnderTest, query = ''): Promise<UsageReport> =>
  (await fetch(`${adminUrl}/usage${query}`)).json() as Promise<UsageReport>
const toRows = ({ rows }: UsageReport) => rows.map(({ name, calls, errors, denied }) => [name, calls, errors, denied])
const call = (url: string, name: string, headers: Record<string, string> = {}) =>
  postModern(url, 'tools/call', { name, arguments: {} }, headers)

const POLICY = 'permit(principal, action, resource) unless { resource == Tool::"b_wrong" && principal has nothing };'

async function start(more: Partial<TestConfig>): Promise<GatewayUnderTest> {
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], ...more })
  stage.cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}

test('usage is counted only if that is configured', async () => {
  const gateway = await start({})
  await call(gateway.url, 'b_t')
  assert.is((await fetch(`${gateway.adminUrl}/usage`)).status, 404)
  await gateway.configure({ backends: [{ name: 'b', url: backend.url }], usage: { enabled: true } })
  await eventually('it counts', async () => (await fetch(`${gateway.adminUrl}/usage`)).status === 200)
  assert.equal((await usageAt(gateway)).rows, [])
  for (const query of [
    '?by=colour',
    '?from=yesterday',
    '?from=2026-02-30',
    '?from=2026-02-02&to=2026-02-01',
    '?by=person',
  ])
    assert.is((await fetch(`${gateway.adminUrl}/usage${query}`)).status, 400, query)
  assert.is((await fetch(`${gateway.adminUrl}/usage`, { headers: { origin: 'https://evil.example' } })).status, 403)
})

test('calls of both eras count by tool, backend, client and person, with errors and denials', async () => {
  const gateway = await start({
    usage: { enabled: true, people: 'name' },
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
    authz: { policies: [POLICY.replace('principal has nothing', 'principal == Client::"bob"')] },
  })
  const buildHeaders = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ sub, aud: AUDIENCE })}` })
  const [ada, bob] = [await buildHeaders('ada'), await buildHeaders('bob')]
  await call(gateway.url, 'b_t', ada)
  await call(gateway.url, 'b_t', ada)
  await call(gateway.url, 'b_wrong', ada)
  assert.is((await call(gateway.url, 'b_wrong', bob)).status, 403)
  await call(gateway.url, 'nothing', bob)
  const session = { ...(await openSession(gateway.url, ada)), ...ada }
  await post(gateway.url, rpc('tools/call', { name: 'b_t', arguments: {} }), session)
  const report = await usageAt(gateway)
  assert.equal(toRows(report), [
    ['b_t', 3, 0, 0],
    ['b_wrong', 2, 1, 1],
    ['', 1, 0, 1],
  ])
  assert.equal(toRows(await usageAt(gateway, '?by=person')), [
    ['ada', 4, 1, 0],
    ['bob', 2, 0, 2],
  ])
  assert.is((await usageAt(gateway, '?by=backend')).rows[0]?.name, 'b')
  // A client with a session sends its name once, when it opens the session.
  assert.equal(toRows(await usageAt(gateway, '?by=client')).at(-1), ['raw', 1, 0, 0])
  assert.equal([report.store, report.people, report.other, report.problem], ['memory', 'name', null, null])
})

test('a person’s digest has no name, and is the same each time', async () => {
  const gateway = await start({
    usage: { enabled: true, people: 'digest' },
    incomingAuth: { type: 'oidc', oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true } },
  })
  for (const _ of [1, 2])
    await call(gateway.url, 'b_t', { authorization: `Bearer ${await idp.mint({ sub: 'ada', aud: AUDIENCE })}` })
  const { rows } = await usageAt(gateway, '?by=person')
  assert.is(rows.length, 1)
  assert.match(rows[0]?.name ?? '', /^[0-9a-f]{16}$/)
})

test('replicas on Redis count together, and the counts outlive them', async () => {
  const config = stage.config({ usage: { enabled: true } })
  const [one, two] = [await start(config), await start(config)]
  for (const { url } of [one, two, one]) await call(url, 'b_t')
  await eventually('all are counted', async () => (await usageAt(two)).rows[0]?.calls === 3)
  await call(one.url, 'b_t')
  for (const close of stage.cleanups.splice(0)) await close()
  const report = await usageAt(await start(config))
  assert.equal([report.store, ...toRows(report)], ['redis', ['b_t', 4, 0, 0]])
})

test('a call by call_tool counts as a call of the named tool', async () => {
  const gateway = await start({ usage: { enabled: true }, optimizer: {} })
  await postModern(gateway.url, 'tools/call', { name: 'call_tool', arguments: { name: 'b_t', arguments: {} } })
  assert.equal(toRows(await usageAt(gateway)), [['b_t', 1, 0, 0]])
})

test('calls without room for a row of their own share one, and old days are dropped', async () => {
  let now = Date.parse('2026-03-01T12:00:00Z')
  const usage = new Usage({ log: pino({ level: 'silent' }), workload: 'a/b', mostBytes: 1e9, now: () => now })
  usage.apply({ enabled: true, days: 2 })
  const anonymous = { kind: 'anonymous' } as const
  const count = (client: string) => usage.count(anonymous, { client, tool: 't', backend: 'b', outcome: 'ok' }, 1)
  for (let index = 0; index < MOST_ROWS + 10; index++) count(`c${index}`)
  count('c1')
  const report = (query: Record<string, string> = {}) => reportUsage(usage, (name) => query[name], now)
  assert.is((await report()).rows[0]?.calls, MOST_ROWS + 1)
  const byClient = await report({ by: 'client' })
  assert.is(byClient.rows.length, 1_000)
  assert.is(byClient.other?.calls, MOST_ROWS + 11 - byClient.rows.reduce((sum, { calls }) => sum + calls, 0))
  assert.equal((await report({ from: '2026-02-01', to: '2026-02-28' })).rows, [])
  now += 2 * 86_400_000
  count('x')
  assert.equal(toRows(await report({ by: 'client' })), [['x', 1, 0, 0]])
  const small = new Usage({ log: pino({ level: 'silent' }), workload: 'a/b', mostBytes: 1_000, now: () => now })
  small.apply({ enabled: true })
  for (let index = 0; index < 100; index++)
    small.count(anonymous, { client: `c${index}`, tool: 't', backend: 'b', outcome: 'ok' }, 1)
  const { rows, other } = await reportUsage(small, () => undefined, now)
  assert.is((rows[0]?.calls ?? 0) + (other?.calls ?? 0), 100)
  assert.ok((other?.calls ?? 0) > 90)
})

test.run()
