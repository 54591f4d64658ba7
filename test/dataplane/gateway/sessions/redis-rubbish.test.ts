/** Data in Redis and messages of replicas may be anything: an older version or an attacker may have written them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type BusMessage, isBusMessage } from '../../../../dataplane/gateway/sessions/store/bus.ts'
import { connectRedis, type RedisClient } from '../../../../dataplane/storage/redis.ts'
import { eventually } from '../../../support/eventually.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { buildVariants, WRONG_VALUES } from '../../../support/gateway/wrong-values.ts'
import { recordLog } from '../../../support/kept-log.ts'
import { type McpTestServer, startMcpServer } from '../../../support/servers/dual-server.ts'

const SECRET = 's3cr3t-in-a-query'
let backend: McpTestServer
let redis: RedisClient
const stage = new RedisStage(test, () => `${backend.url}?key=${SECRET}`)
test.before(async () => {
  backend = await startMcpServer({ name: 'b', mode: 'sessions' })
  redis = connectRedis({ mode: 'standalone', addresses: [stage.redis.address] }, recordLog().log)
})
test.after(async () => {
  redis.disconnect()
  await backend.close()
})

const echo = rpc('tools/call', { name: 'b_echo', arguments: { message: 'x' } })

test('rubbish in a session in Redis affects that session alone', async () => {
  const [one, two] = await stage.twoReplicas()
  const [opening, ...more] = [await openSession(one.url), await openSession(one.url)]
  assert.is((await post(one.url, echo, opening)).status, 200)
  const findKey = async (id: string) => (await redis.keys(`*session:${id}`))[0] as string
  const key = await findKey(opening?.['mcp-session-id'] as string)
  const good = await redis.hgetall(key)
  assert.ok(Object.keys(good).length >= 4, 'its notes are among its fields')
  assert.not.match(JSON.stringify(good), SECRET)
  assert.is(more.length, 1)
  const backendSession = good['n:link:b'] as string
  const rubbish = [
    ...WRONG_VALUES,
    '',
    '{',
    '\u0000',
    ...buildVariants(JSON.parse(backendSession)).map(({ text }) => text),
  ]
  let count = 0
  await Promise.all(
    Object.keys(good).flatMap((field) =>
      rubbish.map(async (value) => {
        const id = `rubbish-${count++}`
        await redis.hset(key.replace(/[^:]*$/, id), { ...good, [field]: value })
        const { status, text } = await post(two.url, echo, { 'mcp-session-id': id })
        assert.ok([200, 404].includes(status), `${field} = ${value.slice(0, 60)}: ${status} ${text}`)
      }),
    ),
  )
  assert.is((await post(two.url, echo, opening)).status, 200)
  assert.not.match(JSON.stringify([one.lines, two.lines]), SECRET)
})

const MESSAGES: readonly object[] = [
  { kind: 'say', session: 's', text: '{}', ask: '"portico-x-1"' },
  { kind: 'answer', session: 's', ask: '"portico-x-1"', text: '{}' },
  { kind: 'linked', session: 's', backend: 'b', from: 'x' },
  { kind: 'replay', session: 's', stream: 't', after: 1, relay: 'f', from: 'x' },
  { kind: 'relayed', relay: 'f', seq: 1, items: [{ what: 'event', id: 'i', text: 't' }] },
  { kind: 'resume', call: 'c', relay: 'r', from: 'x', text: '{}' },
  { kind: 'awaits', relay: 'r', from: 'x', received: 0, hasRoom: true },
  { kind: 'relayed', relay: 'r', seq: 1, items: [{ what: 'answer', status: 200, text: '{}' }] },
  { kind: 'cancel', session: 's', request: '1' },
  { kind: 'late', session: 's', backend: 'b', request: '1', relay: 'r', from: 'x' },
]

test('rubbish on the channels of replicas is ignored', async () => {
  const [one, two] = await stage.twoReplicas()
  const session = await openSession(one.url)
  assert.is((await post(one.url, echo, session)).status, 200)
  const id = session['mcp-session-id'] as string
  const prefix = ((await redis.keys(`*session:${id}`))[0] as string).replace(/session:.*/, '')
  let channels: string[] = []
  await eventually('both replicas listen', async () => {
    channels = (await redis.pubsub('CHANNELS', `${prefix}*`)) as string[]
    return channels.length === 3
  })
  const own = JSON.parse(JSON.stringify(MESSAGES).replaceAll('"s"', JSON.stringify(id))) as object[]
  const texts = [...WRONG_VALUES, ...own.flatMap((message) => buildVariants(message).map(({ text }) => text))]
  for (const text of texts) await Promise.all(channels.map((channel) => redis.publish(channel, `["stranger",${text}]`)))
  for (const { url } of [one, two])
    await eventually('it is served', async () => (await post(url, echo, session)).status === 200)
  assert.is((await postModern(two.url, 'tools/call', { name: 'b_echo', arguments: {} })).status < 500, true)
  assert.equal(
    [...one.lines, ...two.lines].filter(({ msg }) => /not understood/.test(String(msg))),
    [],
  )
})

const buildRelayed = (item: object) => ({ kind: 'relayed', relay: 'r', seq: 1, items: [item] }) as never

test('messages of replicas are recognised, and similar ones are refused', () => {
  for (const message of MESSAGES) assert.ok(isBusMessage(message as never), JSON.stringify(message))
  const unlike: readonly (Partial<BusMessage> & Record<string, unknown>)[] = [
    buildRelayed({ what: 'answer', status: 99, text: '' }),
    buildRelayed({ what: 'answer', status: 200 }),
    buildRelayed({ what: 'toString' }),
    buildRelayed({ what: 'event' }),
    { kind: 'relayed', relay: 'r', seq: 1, items: [null] } as never,
    { kind: 'relayed', relay: 'r', items: [] } as never,
    { kind: 'awaits', relay: 'r', from: 'x', received: 1 } as never,
    { kind: 'constructor' } as never,
  ]
  for (const message of unlike) assert.not.ok(isBusMessage(message), JSON.stringify(message))
})

test.run()
