/** Tests streams of legacy backends that break off, and how the gateway resumes them (2025-11-25, resumability). */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  startRawServer,
  tool,
} from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const stream = (res: ServerResponse): ServerResponse => res.writeHead(200, { 'content-type': 'text/event-stream' })
const PRIMING = 'id: one\nretry: 150\ndata: \n\n'
const TOOL = rpc('tools/call', { name: 't', arguments: {} })

interface Script {
  /** Writes the answer to a call's POST. */
  call(request: RawRequest, res: ServerResponse): void
  /** Answers the GETs that resume a call; `call` is its request. */
  goOn(call: RawRequest, res: ServerResponse, get: RawRequest): void
}

interface ScriptedBackend {
  readonly backend: RawServer
  readonly gateway: GatewayUnderTest
  readonly gets: { readonly after: unknown; readonly at: number }[]
}

async function startScripted({ call, goOn }: Script, config: Partial<TestConfig> = {}): Promise<ScriptedBackend> {
  const gets: { after: unknown; at: number }[] = []
  let called: RawRequest | undefined
  const backend = await startRawServer({
    era: 'legacy',
    call(request, res) {
      called = request
      call(request, res)
      return undefined
    },
    before(request, res) {
      const after = request.headers['last-event-id']
      if (request.method !== 'GET' || after === undefined || called === undefined) return false
      gets.push({ after, at: performance.now() })
      goOn(called, res, request)
      return true
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url }], ...config })
  cleanups.push(
    () => backend.close(),
    () => gateway.close(),
  )
  await gateway.listed()
  return { backend, gateway, gets }
}

/** Returns the answer, whether it is JSON or the last event of a stream. */
const answerIn = ({ json, text }: RpcAnswer) => json ?? JSON.parse(text.slice(text.lastIndexOf('data: ') + 6))

test('a stream that ends before the answer is resumed after the stated time, and the call is made once', async () => {
  let endedAt = 0
  const { backend, gateway, gets } = await startScripted({
    call(_request, res) {
      stream(res).end(PRIMING, () => {
        endedAt = performance.now()
      })
    },
    goOn: (call, res) => stream(res).end(`id: two\ndata: ${answer(call, OK_RESULT)}\n\n`),
  })
  const answered = await post(gateway.url, TOOL, await openSession(gateway.url))
  assert.is(readText(answerIn(answered).result), 'ok')
  assert.match(answered.text, /^id: \S+\nretry: \d+\ndata: \n\n/, 'its client learns how to come back')
  assert.equal(
    gets.map(({ after }) => after),
    ['one'],
  )
  // Timers fire up to a millisecond early.
  assert.ok((gets[0]?.at ?? 0) - endedAt >= 148, 'the retry time has passed')
  const [call] = backend.calls('tools/call')
  const [get] = backend.seen.filter(({ method, headers }) => method === 'GET' && headers['last-event-id'] === 'one')
  assert.is(get?.headers['mcp-session-id'], call?.headers['mcp-session-id'])
  assert.is(get?.headers.accept, 'text/event-stream')
  assert.is(backend.calls('tools/call').length, 1)
})

test('a modern client’s call is resumed too, and may be polled many times', async () => {
  let left = 3
  const { backend, gateway, gets } = await startScripted({
    call: (_request, res) => void stream(res).end('id: 0\nretry: 1\ndata:\n\n'),
    goOn(call, res) {
      if (left-- > 0) stream(res).end(`id: ${gets.length}\ndata: \n\n`)
      else stream(res).end(`data: ${answer(call, OK_RESULT)}\n\n`)
    },
  })
  const { json } = await postModern(gateway.url, 'tools/call', { name: 't', arguments: {} })
  assert.is(readText(json.result), 'ok')
  assert.is(json.result.resultType, 'complete')
  assert.equal(
    gets.map(({ after }) => after),
    ['0', '1', '2', '3'],
  )
  assert.is(backend.calls('tools/call').length, 1)
})

test('a connection that breaks in the middle of an event loses nothing and repeats nothing', async () => {
  const log = (text: string) =>
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: text } })
  const { gateway, gets } = await startScripted({
    call(_request, res) {
      stream(res).write(`retry: 1\nid: a\ndata: ${log('first')}\n\nid: b\ndata: {"jsonrpc":"2.0","meth`, () =>
        res.destroy(),
      )
    },
    goOn: (call, res) => stream(res).end(`id: b\ndata: ${log('second')}\n\ndata: ${answer(call, OK_RESULT)}\n\n`),
  })
  const { text } = await post(gateway.url, TOOL, await openSession(gateway.url))
  assert.equal([text.match(/first/g)?.length, text.match(/second/g)?.length], [1, 1])
  assert.match(text, /"text":"ok"/)
  assert.equal(
    gets.map(({ after }) => after),
    ['a'],
  )
})

test('a backend that refuses to resume fails the call at once, and is not called again', async () => {
  for (const status of [400, 404, 405]) {
    const { backend, gateway, gets } = await startScripted({
      call: (_request, res) => void stream(res).end('id: one\nretry: 1\ndata: \n\n'),
      goOn: (_call, res) => res.writeHead(status).end(),
    })
    const json = answerIn(await post(gateway.url, TOOL, await openSession(gateway.url)))
    assert.is(json.error?.code, -32603)
    assert.equal([backend.calls('tools/call').length, gets.length], [1, 1])
  }
})

test('a backend that is down for a moment is asked again', async () => {
  let unreachable = 2
  const { gateway, gets } = await startScripted({
    call: (_request, res) => void stream(res).end('id: one\nretry: 1\ndata: \n\n'),
    goOn(call, res) {
      if (unreachable-- > 0) res.writeHead(503).end()
      else stream(res).end(`data: ${answer(call, OK_RESULT)}\n\n`)
    },
  })
  const json = answerIn(await post(gateway.url, TOOL, await openSession(gateway.url)))
  assert.is(readText(json.result), 'ok')
  assert.equal(
    gets.map(({ after }) => after),
    ['one', 'one', 'one'],
  )
})

test('an unanswered call times out, however often its stream is resumed', async () => {
  const { gateway } = await startScripted(
    {
      call: (_request, res) => void stream(res).end('id: one\nretry: 1\ndata: \n\n'),
      goOn: (_call, res) => stream(res).end('id: one\ndata: \n\n'),
    },
    { timeouts: { default: '2s' } },
  )
  const json = answerIn(await post(gateway.url, TOOL, await openSession(gateway.url)))
  assert.match(json.error?.message ?? '', /in time/)
})

test('a stream without ids that ends before the answer is a failure at once', async () => {
  const { backend, gateway } = await startScripted({
    call: (_request, res) => void stream(res).end('data: \n\n'),
    goOn: (_call, res) => res.writeHead(500).end(),
  })
  const { json } = await post(gateway.url, TOOL, await openSession(gateway.url))
  assert.is(json.error?.code, -32603)
  assert.equal(
    backend.seen
      .filter(({ method }) => method === 'GET')
      .every(({ headers }) => headers['last-event-id'] === undefined),
    true,
  )
})

/** Starts a backend whose list of tools is polled for, and a gateway in front of it. */
async function startPolled(era: 'legacy' | 'modern', goOn: (list: RawRequest, res: ServerResponse) => void) {
  let listed: RawRequest | undefined
  const gets: unknown[] = []
  const backend = await startRawServer({
    era,
    call: () => undefined,
    before(request, res) {
      const { method, headers, message } = request
      if (message.method === 'tools/list') {
        listed = request
        stream(res).end('id: one\nretry: 1\ndata: \n\n')
        return true
      }
      if (method !== 'GET' || listed === undefined || headers['last-event-id'] === undefined) return false
      gets.push([headers['last-event-id'], headers['mcp-session-id'], headers.accept])
      goOn(listed, res)
      return true
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url }] })
  cleanups.push(
    () => backend.close(),
    () => gateway.close(),
  )
  return { backend, gateway, gets, session: () => listed?.headers['mcp-session-id'] }
}

test('a list that needs polling is requested once and arrives whole', async () => {
  let left = 2
  const tools = Array.from({ length: 3_000 }, (_, index) => tool(`t${index}`, `"description":"${'x'.repeat(500)}"`))
  const { backend, gateway, gets, session } = await startPolled('legacy', (list, res) => {
    if (left-- > 0) stream(res).end('id: two\ndata: \n\n')
    else stream(res).write(`data: ${answer(list, `{"tools":[${tools.join(',')}]}`)}\n\n`)
  })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === tools.length)
  const rest = [session(), 'text/event-stream']
  assert.equal(gets, [
    ['one', ...rest],
    ['two', ...rest],
    ['two', ...rest],
  ])
  assert.is(backend.calls('tools/list').length, 1)
})

test('a list fails at once if its rest is refused or if the backend is modern', async () => {
  for (const [era, isOpened] of [
    ['legacy', true],
    ['modern', false],
  ] as const) {
    const { gateway, gets } = await startPolled(era, (_list, res) => res.writeHead(404).end())
    await eventually(
      'the failure',
      async () => (await gateway.status()).backends[0]?.lastError?.code === 'backend_failed',
    )
    assert.is(gets.length > 0, isOpened, era)
  }
})

test('an answer to a message that needs none is ignored', async () => {
  for (const [type, body] of [
    ['application/json', ''],
    ['application/json', '{"ok":true}'],
    ['text/event-stream', 'data: \n\n'],
  ] as const) {
    const backend = await startRawServer({
      era: 'legacy',
      call: () => undefined,
      before({ message }, res) {
        if (message.method !== 'notifications/initialized') return false
        res.writeHead(200, { 'content-type': type }).end(body)
        return true
      },
    })
    const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url }] })
    cleanups.push(
      () => backend.close(),
      () => gateway.close(),
    )
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
  }
})

/** Starts a backend with a GET stream that the test can end, and records its requests. */
async function startListened(refuse: (get: RawRequest) => number | undefined = () => undefined) {
  const streams: ServerResponse[] = []
  const gets: unknown[] = []
  const backend = await startRawServer({
    era: 'legacy',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      if (request.method !== 'GET') return false
      gets.push(request.headers['last-event-id'])
      const status = refuse(request)
      if (status !== undefined) res.writeHead(status).end()
      else {
        streams.push(stream(res))
        res.flushHeaders()
      }
      return true
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url }] })
  cleanups.push(
    () => backend.close(),
    () => gateway.close(),
  )
  await gateway.listed()
  const session = await openSession(gateway.url)
  const leaving = new AbortController()
  const headers = { ...session, accept: 'text/event-stream' }
  const listening = await fetch(gateway.url, { headers, signal: leaving.signal })
  let received = ''
  const reading = (async () => {
    for await (const part of (listening.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()))
      received += part
  })().catch(() => {})
  cleanups.push(() => {
    leaving.abort()
    return reading
  })
  await post(gateway.url, TOOL, session)
  await eventually('the stream', () => streams.length === 1)
  return { gets, streams, received: () => received }
}

const buildLog = (text: string) =>
  JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: text } })

test('a GET stream that ends is reopened after its last event', async () => {
  const { gets, streams, received } = await startListened()
  streams[0]?.end(`id: 7\nretry: 1\ndata: ${buildLog('before')}\n\n`)
  await eventually('the next stream', () => streams.length === 2)
  streams[1]?.end(`data: ${buildLog('missed')}\n\n`)
  await eventually('one more', () => streams.length === 3)
  streams[2]?.write(`id: 8\ndata: ${buildLog('after')}\n\n`)
  await eventually('all of it', () => ['before', 'missed', 'after'].every((text) => received().includes(text)))
  assert.equal(gets, [undefined, '7', '7'])
})

test('a GET stream is reopened without the last event if the backend no longer knows it', async () => {
  const { gets, streams, received } = await startListened(({ headers }) =>
    headers['last-event-id'] === undefined ? undefined : 400,
  )
  streams[0]?.end('id: 7\nretry: 1\ndata: \n\n')
  await eventually('the next stream', () => streams.length === 2)
  streams[1]?.write(`data: ${buildLog('again')}\n\n`)
  await eventually('the message to arrive', () => received().includes('again'))
  assert.equal(gets, [undefined, '7', undefined])
})

test('a GET stream that is refused for the moment is requested again', async () => {
  const statuses = [409, 503]
  const { gets, streams, received } = await startListened(({ headers }) =>
    headers['last-event-id'] === undefined ? undefined : statuses.shift(),
  )
  streams[0]?.end('id: 7\nretry: 1\ndata: \n\n')
  await eventually('the next stream', () => streams.length === 2)
  streams[1]?.write(`data: ${buildLog('again')}\n\n`)
  await eventually('the message to arrive', () => received().includes('again'))
  assert.equal(gets, [undefined, '7', '7', '7'])
})

test.run()
