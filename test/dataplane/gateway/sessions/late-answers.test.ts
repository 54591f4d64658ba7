/** Tests answers on the GET stream of a backend's session, which one replica has open, to calls of all replicas. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

let backend: RawServer
const replicas = new RedisStage(test, () => backend.url)
const { cleanups } = replicas

const LATE: ReadonlySet<unknown> = new Set(['tools/list', 'tools/call', 'resources/read', 'prompts/get'])

const buildResult = ({ message: { method, params } }: RawRequest): string => {
  if (method === 'tools/list') return `{"tools":[${tool('t')}]}`
  const args = params?.['arguments'] as { text?: string; bytes?: number } | undefined
  const text = JSON.stringify((args?.text ?? '').padEnd(args?.bytes ?? 0, 'x'))
  return `{"content":[{"type":"text","text":${text}}]}`
}

/**
 * Starts a backend that only accepts requests with 202 and answers on the session's stream as soon as it is open; with
 * `isFirst` it answers before it accepts.
 */
async function startLate({ isFirst = false } = {}) {
  let holds = false
  const streams = new Map<unknown, ServerResponse>()
  const waiting = new Map<unknown, string[]>()
  const sendOn = (session: unknown, text: string) => {
    const stream = streams.get(session)
    if (stream === undefined || holds) waiting.set(session, [...(waiting.get(session) ?? []), text])
    else stream.write(text)
  }
  const give = (session: unknown) => {
    const stream = streams.get(session)
    if (stream === undefined) return
    for (const text of waiting.get(session) ?? []) stream.write(text)
    waiting.delete(session)
  }
  backend = await startRawServer({
    era: 'legacy',
    call: () => undefined,
    before(request, res) {
      const session = request.headers['mcp-session-id']
      if (request.method === 'GET') {
        if (streams.has(session)) {
          res.writeHead(409).end()
          return true
        }
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.set(session, res)
        res.once('close', () => streams.delete(session))
        if (!holds) give(session)
        return true
      }
      if (!LATE.has(request.message.method)) return false
      const text = `data: ${answer(request, buildResult(request))}\n\n`
      if (isFirst) {
        sendOn(session, text)
        setTimeout(() => res.writeHead(202).end(), 50)
      } else {
        res.writeHead(202).end()
        sendOn(session, text)
      }
      return true
    },
  })
  cleanups.push(() => backend.close())
  const releaseAll = () => {
    holds = false
    for (const session of streams.keys()) give(session)
  }
  const hold = () => {
    holds = true
  }
  return { streams, hold, proceed: releaseAll }
}

const proxies = () => replicas.twoReplicas({ role: 'proxy' })
let lastId = 0
const call = (args: object) => rpc('tools/call', { name: 't', arguments: args }, ++lastId)
const callEcho = async (url: string, args: object, session: Record<string, string>) =>
  readText((await post(url, call(args), session)).json.result)

async function listen(url: string, session: Record<string, string>): Promise<void> {
  const reader = await EventReader.listen(url, session)
  cleanups.push(() => reader.leave())
  await eventually('the first event', () => reader.events.length > 0)
}

const texts = [...Array(20).keys()].map((number) => `text ${number}`)

for (const isFirst of [false, true])
  test(`the answer to one replica’s call arrives on the stream of the other${isFirst ? ', before the call is accepted' : ''}`, async () => {
    const { streams } = await startLate({ isFirst })
    const [one, two] = await proxies()
    const session = await openSession(one.url)
    await listen(one.url, session)
    assert.is(await callEcho(one.url, { text: 'a' }, session), 'a')
    const before = [...streams.values()]
    assert.equal(await Promise.all(texts.map((text) => callEcho(two.url, { text }, session))), texts)
    const { result } = (await post(two.url, rpc('tools/list', {}, 'own'), session)).json
    assert.equal(
      result['tools']?.map(({ name }) => name),
      ['t'],
    )
    assert.equal([...streams.values()], before, 'the session has the stream that it had')
  })

test('if the client does not listen, its replicas share the stream on which answers arrive', async () => {
  await startLate()
  const [one, two] = await proxies()
  const session = await openSession(one.url)
  for (const round of [1, 2, 3])
    for (const { url } of [one, two]) assert.is(await callEcho(url, { text: `${round}` }, session), `${round}`)
  // A session in which both calls begin at once.
  const other = await openSession(two.url)
  const answers = texts.map((text, at) => callEcho(at % 2 === 0 ? one.url : two.url, { text }, other))
  assert.equal(await Promise.all(answers), texts)
})

test('a client that begins to listen moves the stream and the calls that wait on it', async () => {
  const late = await startLate()
  const [one, two] = await proxies()
  const session = await openSession(one.url)
  assert.is(await callEcho(one.url, { text: 'a' }, session), 'a')
  late.hold()
  const pending = callEcho(one.url, { text: 'held' }, session)
  await eventually('the call', () => backend.calls('tools/call').length === 2)
  const before = [...late.streams.values()]
  await listen(two.url, session)
  await eventually('another stream', () => [...late.streams.values()].some((stream) => !before.includes(stream)))
  late.proceed()
  assert.is(await pending, 'held')
  for (const { url } of [one, two]) assert.is(await callEcho(url, { text: 'b' }, session), 'b')
})

test('a client that reopens its stream loses no answer', async () => {
  const late = await startLate()
  const [one] = await proxies()
  const session = await openSession(one.url)
  await listen(one.url, session)
  assert.is(await callEcho(one.url, { text: 'a' }, session), 'a')
  late.hold()
  const pending = callEcho(one.url, { text: 'held' }, session)
  await eventually('the call', () => backend.calls('tools/call').length === 2)
  const before = [...late.streams.values()]
  await listen(one.url, session)
  assert.equal([...late.streams.values()], before)
  late.proceed()
  assert.is(await pending, 'held')
})

test('a large answer passes between replicas', async () => {
  await startLate()
  const [one, two] = await proxies()
  const session = await openSession(one.url)
  assert.is(await callEcho(one.url, { text: 'a' }, session), 'a')
  for (const bytes of [70_000, 1_500_000, 6_000_000])
    assert.is((await callEcho(two.url, { bytes }, session))?.length, bytes)
})

test('an answer for the stream of a killed replica arrives on the next stream', async () => {
  const late = await startLate()
  const [one, two] = await replicas.oneToKill({ role: 'proxy' })
  const session = await openSession(one.url)
  assert.is(await callEcho(one.url, { text: 'a' }, session), 'a')
  const stream = [...late.streams.values()].at(-1) as ServerResponse
  late.hold()
  const pending = callEcho(two.url, { text: 'held' }, session)
  await eventually('the call', () => backend.calls('tools/call').length === 2)
  await one.end('SIGKILL')
  await eventually('another stream', () => {
    const last = [...late.streams.values()].at(-1)
    return last !== undefined && last !== stream && stream.closed
  })
  late.proceed()
  assert.is(await pending, 'held')
  assert.is(await callEcho(two.url, { text: 'b' }, session), 'b')
})

test.run()
