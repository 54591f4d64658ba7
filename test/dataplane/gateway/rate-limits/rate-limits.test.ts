/** Tests rate limits over HTTP, in both eras, with backends of both. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { AUDIENCE } from '../../../support/gateway/guarded.ts'
import {
  modern,
  openSession,
  parseBatch,
  post,
  postModern,
  type RpcAnswer,
  rpc,
} from '../../../support/gateway/post.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { type IdentityProvider, startIdentityProvider } from '../../../support/network/identity-provider.ts'
import { type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

type RateLimiting = NonNullable<GatewayConfig['rateLimiting']>
type Headers = Record<string, string>
type Era = 'modern' | 'legacy'

const bucket = (maxTokens: number, refillPeriod = '1h') => ({ maxTokens, refillPeriod })
const tool = (name: string) => JSON.stringify({ name, inputSchema: { type: 'object' } })
const eras: readonly Era[] = ['modern', 'legacy']

let idp: IdentityProvider
const backends: Partial<Record<Era, RawServer>> = {}
const backend = (era: Era) => backends[era] as RawServer
/** The status with which a backend answers its next call. */
let status = 200
const open: GatewayUnderTest[] = []

test.before(async () => {
  idp = await startIdentityProvider()
  for (const era of eras)
    backends[era] = await startRawServer({
      era,
      tools: ['a', 'b'].map(tool),
      call(request, res) {
        const { message } = request
        if (status !== 200) {
          backend(era).forget(request)
          res.writeHead(status, { 'content-type': 'text/html' }).end('<html>')
          status = 200
          return undefined
        }
        const resultType = era === 'modern' ? { resultType: 'complete' } : {}
        const result = { ...resultType, content: [{ type: 'text', text: 'done' }] }
        return JSON.stringify({ jsonrpc: '2.0', id: message.id, result })
      },
    })
})
test.after.each(async () => {
  for (const gateway of open.splice(0)) await gateway.close()
})
test.after(async () => {
  for (const era of eras) await backend(era).close()
  await idp.close()
})

async function start(rateLimiting: RateLimiting, more: Partial<TestConfig> = {}, behind: Era = 'modern') {
  const gateway = await startGateway({ backends: [{ name: 'x', url: backend(behind).url }], rateLimiting, ...more })
  open.push(gateway)
  await gateway.listed()
  return gateway
}

const oidc = () => ({
  resourceUrl: AUDIENCE,
  incomingAuth: {
    type: 'oidc' as const,
    oidc: { issuer: idp.issuer, audience: AUDIENCE, allowPrivateIP: true },
  },
})
const bearer = async (sub: string) => ({ authorization: `Bearer ${await idp.mint({ aud: AUDIENCE, sub })}` })

async function callIn(era: Era, url: string, name: string, headers: Headers = {}): Promise<RpcAnswer> {
  if (era === 'modern') return postModern(url, 'tools/call', { name, arguments: {} }, headers)
  return post(url, rpc('tools/call', { name, arguments: {} }), await openSession(url, headers))
}

const isRefused = ({ json }: RpcAnswer) => json.result?.isError === true
const rateLimits = async (gateway: GatewayUnderTest) => unwrap((await gateway.status()).rateLimits)

for (const client of eras)
  for (const behind of eras)
    test(`a gateway before a ${behind} backend tells a ${client} client in a result how long to wait`, async () => {
      const gateway = await start({ shared: bucket(2, '1h') }, {}, behind)
      const before = backend(behind).calls('tools/call').length
      for (let call = 0; call < 2; call++)
        assert.is((await callIn(client, gateway.url, 'x_a')).json.result.content[0].text, 'done')
      const { status, json, headers } = await callIn(client, gateway.url, 'x_b')
      assert.is(status, 200)
      assert.is(headers.get('retry-after'), null)
      assert.is(json.id, 1)
      assert.is(json.result.isError, true)
      assert.is(json.result.resultType, client === 'modern' ? 'complete' : undefined)
      const { retryAfterSeconds } = json.result.structuredContent
      assert.ok(retryAfterSeconds > 1700 && retryAfterSeconds <= 1800, `${retryAfterSeconds}`)
      assert.is(json.result.content[0].text, `Too many calls; this one may be made in ${retryAfterSeconds} seconds.`)
      assert.is(backend(behind).calls('tools/call').length - before, 2, 'the backend was not called')
    })

for (const client of eras)
  test(`a proxy answers a ${client} client with 429 and Retry-After`, async () => {
    const gateway = await start({ tools: [{ name: 'a', shared: bucket(1, '90s') }] }, { role: 'proxy' }, client)
    assert.is((await callIn(client, gateway.url, 'a')).status, 200)
    const { status, json, headers } = await callIn(client, gateway.url, 'a')
    assert.is(status, 429)
    assert.is(json.error.code, 429)
    assert.is(json.id, 1)
    assert.ok(json.error.data.retryAfterSeconds > 60 && json.error.data.retryAfterSeconds <= 90)
    assert.is(headers.get('retry-after'), String(json.error.data.retryAfterSeconds))
    assert.is((await callIn(client, gateway.url, 'b')).status, 200, 'another tool')
  })

test('SDK clients of both eras read the refusal', async () => {
  const gateway = await start({ shared: bucket(1) })
  for (const [index, era] of eras.entries()) {
    const { client } = await connect(gateway.url, era)
    try {
      const result = await client.callTool({ name: 'x_a', arguments: {} })
      if (index === 0) assert.is(readText(result), 'done')
      else {
        assert.is(result.isError, true)
        assert.type((result.structuredContent as RpcResult['structuredContent']).retryAfterSeconds, 'number')
      }
    } finally {
      await client.close()
    }
  }
})

test('a user is identified by issuer and subject, whatever the token', async () => {
  const gateway = await start({ perUser: bucket(2), tools: [{ name: 'x_b', perUser: bucket(1) }] }, oidc())
  for (const era of eras) {
    const [one, other] = [`${era}-one`, `${era}-other`]
    assert.is(isRefused(await callIn(era, gateway.url, 'x_b', await bearer(one))), false)
    assert.is(isRefused(await callIn(era, gateway.url, 'x_b', await bearer(one))), true, 'tool and user')
    assert.is(isRefused(await callIn(era, gateway.url, 'x_a', await bearer(one))), false)
    assert.is(isRefused(await callIn(era, gateway.url, 'x_a', await bearer(one))), true, 'user')
    assert.is(isRefused(await callIn(era, gateway.url, 'x_b', await bearer(other))), false)
  }
  const report = JSON.stringify(await rateLimits(gateway))
  assert.not.match(report, /-one|-other/)
})

test('the calls of one user over the limit do not affect others', async () => {
  const gateway = await start({ shared: bucket(4), perUser: bucket(2) }, oidc())
  const [greedy, modest] = [await bearer('greedy'), await bearer('modest')]
  for (let call = 0; call < 10; call++) await callIn('modern', gateway.url, 'x_a', greedy)
  for (let call = 0; call < 2; call++) assert.is(isRefused(await callIn('modern', gateway.url, 'x_a', modest)), false)
})

test('denied calls, unknown tools and requests other than tool calls are not counted', async () => {
  const policies = ['permit(principal, action, resource) unless { resource == Tool::"x_b" };']
  const gateway = await start({ shared: bucket(1) }, { ...oidc(), authz: { policies } })
  const headers = await bearer('ada')
  for (const name of ['x_b', 'nothing']) assert.is((await callIn('modern', gateway.url, name, headers)).status, 403)
  for (let list = 0; list < 3; list++) assert.is((await postModern(gateway.url, 'tools/list', {}, headers)).status, 200)
  const session = await openSession(gateway.url, headers)
  assert.is((await post(gateway.url, rpc('ping'), session)).status, 200)
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a', headers)), false)
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a', headers)), true)
})

test('each call of a batch counts', async () => {
  const [gateway, proxy] = [await start({ shared: bucket(2) }), await start({ shared: bucket(2) }, { role: 'proxy' })]
  for (const [{ url }, name] of [
    [gateway, 'x_a'],
    [proxy, 'a'],
  ] as const) {
    const session = await openSession(url, {}, '2025-03-26')
    const batch = [1, 2, 3, 4].map((id) => rpc('tools/call', { name, arguments: {} }, id))
    const answers = parseBatch(await post(url, `[${batch.join(',')}]`, session))
    const waits = answers.map(({ result, error }) => result?.structuredContent ?? error?.data).filter(Boolean)
    assert.is(answers.length, 4)
    assert.is(waits.length, 2)
    for (const { retryAfterSeconds } of waits) assert.ok(retryAfterSeconds > 1000)
  }
})

test('a tool call without an id is counted and not made', async () => {
  const gateway = await start({ shared: bucket(2) })
  const before = backend('modern').calls('tools/call').length
  const session = await openSession(gateway.url)
  const withoutId = (text: string) => text.replace('"id":1,', '')
  const { body: call, headers } = modern('tools/call', { name: 'x_a', arguments: {} })
  const body = withoutId(call)
  assert.is((await post(gateway.url, body, headers)).status, 202)
  const notification = withoutId(rpc('tools/call', { name: 'x_a', arguments: {} }))
  assert.is((await post(gateway.url, notification, session)).status, 202)
  for (const [text, more] of [
    [body, headers],
    [notification, session],
  ] as const) {
    const refused = await post(gateway.url, text, more)
    assert.is(refused.status, 429)
    assert.ok(Number(refused.headers.get('retry-after')) > 1000)
  }
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a')), true)
  assert.is(backend('modern').calls('tools/call').length, before)
})

test('a call that is sent to its backend twice is counted once', async () => {
  const gateway = await start({ shared: bucket(2) }, {}, 'legacy')
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a')), false)
  const before = backend('legacy').calls('tools/call').length
  // The backend has lost its session: the call is sent again in a new one.
  status = 404
  assert.is((await callIn('modern', gateway.url, 'x_a')).json.result.content[0].text, 'done')
  assert.is(backend('legacy').calls('tools/call').length - before, 2)
  assert.is((await rateLimits(gateway)).allowed, 2)
})

test('/status tells which buckets refuse and how often, without names', async () => {
  const gateway = await start(
    { shared: bucket(50), perUser: bucket(3), tools: [{ name: 'x_a', perUser: bucket(1, '200ms') }] },
    oidc(),
  )
  const headers = await bearer('ada')
  for (let call = 0; call < 3; call++) await callIn('modern', gateway.url, 'x_b', headers)
  await callIn('modern', gateway.url, 'x_b', headers)
  const { store, allowed, refused, unchecked, limits } = await rateLimits(gateway)
  assert.equal({ store, allowed, refused, unchecked }, { store: 'memory', allowed: 3, refused: 1, unchecked: 0 })
  assert.equal(
    limits.map(({ bucket, tool, refused, refuses }) => ({ bucket, tool, refused, refuses })),
    [
      { bucket: 'shared', tool: null, refused: 0, refuses: false },
      { bucket: 'perUser', tool: null, refused: 1, refuses: true },
      { bucket: 'perUser', tool: 'x_a', refused: 0, refuses: false },
    ],
  )
  assert.is(limits[0]?.lastRefused, null)
  assert.ok(Date.now() - Date.parse(unwrap(limits[1]?.lastRefused)) < 60_000)
})

test('changed limits take effect at once, and used tokens stay used', async () => {
  const config = { backends: [{ name: 'x', url: backend('modern').url }] }
  const gateway = await start({ shared: bucket(2) })
  for (let call = 0; call < 2; call++) await callIn('modern', gateway.url, 'x_a')
  const change = async (next: TestConfig) => {
    const { config } = await gateway.status()
    await gateway.configure(next)
    await eventually('it is in force', async () => (await gateway.status()).config !== config)
  }
  await change({ ...config, rateLimiting: { shared: bucket(3), perUser: bucket(9) } })
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a')), true)
  await change(config)
  assert.is((await gateway.status()).rateLimits, null)
  assert.is(isRefused(await callIn('modern', gateway.url, 'x_a')), false)
})

test('limits without tokens, period or bucket are all reported in the configuration', async () => {
  const gateway = await start({ shared: bucket(2) })
  const findings = async (rateLimiting: object) => {
    await gateway.configure({ backends: [], rateLimiting } as unknown as TestConfig)
    let refused: { pointer: string }[] = []
    const pointers = () => refused.map(({ pointer }) => pointer).sort()
    await eventually('the findings', async () => {
      refused = [...(await gateway.status()).refused]
      return refused.length > 0 && JSON.stringify(pointers()) !== last
    })
    last = JSON.stringify(pointers())
    return pointers()
  }
  let last = ''
  assert.equal(await findings({ shared: { maxTokens: 0, refillPeriod: '1s' }, perUser: { maxTokens: 1 } }), [
    '/rateLimiting/perUser/refillPeriod',
    '/rateLimiting/shared/maxTokens',
  ])
  assert.equal(await findings({ shared: bucket(1, '0s'), tools: [{ name: 'a' }, { name: 'a', shared: bucket(1) }] }), [
    '/rateLimiting/shared/refillPeriod',
    '/rateLimiting/tools/0',
    '/rateLimiting/tools/1/name',
  ])
  assert.equal(await findings({}), ['/rateLimiting'])
})

test.run()
