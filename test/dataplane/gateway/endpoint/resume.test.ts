/** Tests legacy clients that lose a connection and resume its stream (resumability of 2025-03-26 to 2025-11-25). */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { buildLogMessage, Stage } from '../../../support/gateway/stage.ts'
import { answer } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function startStage(): Promise<Stage> {
  const stage = await Stage.start()
  cleanups.push(() => stage.backend.close())
  return stage
}

async function serve(stage: Stage): Promise<GatewayUnderTest> {
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: stage.backend.url }] })
  cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}

type SessionHeaders = Record<string, string>
const call = async (stage: Stage, url: string, session: SessionHeaders, id?: unknown): Promise<EventReader> =>
  (await stage.beginCall(url, session, id)).leftBy(cleanups)
const listen = async (url: string, session: SessionHeaders, after?: string): Promise<EventReader> =>
  (await EventReader.listen(url, session, after)).leftBy(cleanups)

test('a client that reconnects gets the missed part of an answer and the rest', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const broken = await call(stage, url, session)
  await broken.leave()
  stage.log('missed')
  const back = await listen(url, session, broken.lastId)
  assert.is(back.status, 200)
  assert.is(back.headers.get('content-type'), 'text/event-stream')
  await eventually('the missed event', () => back.texts.includes('missed'))
  stage.log('live')
  stage.answer()
  await eventually('the stream to end', () => back.ended)
  assert.equal(back.texts, ['missed', 'live', 'ok'])
  assert.is(back.messages.at(-1)?.id, 'c1')
  assert.is(stage.backend.calls('tools/call').length, 1)
  assert.is(stage.backend.calls('notifications/cancelled').length, 0, 'a lost connection cancels nothing')
  const ids = [...broken.events, ...back.events].map(({ id }) => id)
  assert.is(new Set(ids).size, ids.length, 'each id is there once')
})

test('an answer that arrived while its client was away is kept, and nothing follows it', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const broken = await call(stage, url, session)
  await broken.leave()
  stage.answer()
  const back = await listen(url, session, broken.lastId)
  await eventually('the stream to end', () => back.ended)
  assert.equal(back.texts, ['ok'])
  // A client may resume again although it has everything: one of the SDKs does after an error.
  assert.is((await listen(url, session, back.lastId)).status, 204)
  // Resuming after an earlier event repeats the later ones.
  const again = await listen(url, session, broken.events[0]?.id)
  await eventually('the stream to end', () => again.ended)
  assert.equal(again.texts, ['first', 'ok'])
})

test('the streams of two concurrent calls are resumed separately', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const one = await call(stage, url, session, 1)
  const two = await call(stage, url, session, 2)
  await Promise.all([one.leave(), two.leave()])
  const [first, second] = stage.calls
  for (const { request, res } of [second, first] as typeof stage.calls)
    res.end(`data: ${answer(request, `{"content":[{"type":"text","text":"${request.message.id}"}]}`)}\n\n`)
  for (const [reader, text] of [
    [one, '1'],
    [two, '2'],
  ] as const) {
    const back = await listen(url, session, reader.lastId)
    await eventually('the stream to end', () => back.ended)
    assert.equal(back.texts, [text])
  }
})

test('a stream begins with an event without data only if the client’s revision has that', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  for (const [revision, primed] of [
    ['2025-11-25', true],
    ['2025-06-18', false],
    ['2025-03-26', false],
  ] as const) {
    const session = await openSession(url, {}, revision)
    const reader = await call(stage, url, session)
    stage.answer()
    await eventually('the stream to end', () => reader.ended)
    assert.is(reader.events[0]?.message === undefined, primed, revision)
    assert.ok(reader.events.every(({ id }) => id !== undefined))
    const stream = await listen(url, session)
    if (primed) await eventually('the first event', () => stream.events.length === 1)
    await stream.leave()
    assert.is(stream.events.length, primed ? 1 : 0)
  }
})

test('an answer that needs no stream has none, and no ids', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const { headers } = await post(url, rpc('tools/list'), await openSession(url))
  assert.match(headers.get('content-type') ?? '', /^application\/json/)
})

test('a stream can’t be resumed from another session', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const broken = await call(stage, url, await openSession(url))
  await broken.leave()
  const other = await listen(url, await openSession(url), broken.lastId)
  await eventually('the stream to end', () => other.ended)
  assert.equal(other.texts, ['The answer is no longer there; the request may have been carried out.'])
  stage.answer()
})

test('a large answer that was streamed while its client was away is replaced by an error', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const broken = await call(stage, url, session)
  await broken.leave()
  stage.answer(`{"content":[{"type":"text","text":"${'x'.repeat(600_000)}"}]}`)
  await eventually('the call to end', () => stage.calls[0]?.res.writableFinished === true)
  const back = await listen(url, session, broken.lastId)
  await eventually('the stream to end', () => back.ended)
  assert.is(back.messages.at(-1)?.error?.code, -32603)
  assert.is((await listen(url, session, back.lastId)).status, 204)
})

test('a large answer is streamed to a client that has reconnected', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const broken = await call(stage, url, session)
  await broken.leave()
  const back = await listen(url, session, broken.lastId)
  stage.answer(`{"content":[{"type":"text","text":"${'x'.repeat(3_000_000)}"}]}`)
  await eventually('the stream to end', () => back.ended)
  assert.is(back.messages[0]?.result.content[0].text.length, 3_000_000)
})

test('notifications that were sent while a client was away reach it when it reconnects', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const session = await openSession(url)
  const stream = await listen(url, session)
  await eventually('the first event', () => stream.events.length === 1)
  await call(stage, url, session)
  await eventually('the backend’s stream', () => stage.gets.length === 1)
  const sendLog = (text: string) => stage.gets[0]?.write(`data: ${buildLogMessage(text)}\n\n`)
  sendLog('heard')
  await eventually('the message to arrive', () => stream.texts.includes('heard'))
  await stream.leave()
  sendLog('missed')
  const back = await listen(url, session, stream.lastId)
  await eventually('the missed event', () => back.texts.includes('missed'))
  sendLog('live')
  await eventually('the live event', () => back.texts.includes('live'))
  assert.equal(back.texts, ['missed', 'live'])
  assert.is(stage.gets.length, 1, 'the backend did not notice')
})

test('a client on an older SDK reconnects by its resumption token', async () => {
  const stage = await startStage()
  const { url } = await serve(stage)
  const first = new StreamableHTTPClientTransport(new URL(url))
  const before = new Client({ name: 'c', version: '1' })
  const received: unknown[] = []
  before.fallbackNotificationHandler = async ({ params }) => void received.push(params?.['data'])
  await before.connect(first)
  let token: string | undefined
  const lost = before
    .request({ method: 'tools/call', params: { name: 't', arguments: {} } }, CallToolResultSchema, {
      onresumptiontoken: (value) => {
        token = value
      },
    })
    .catch((error: Error) => error.message)
  await eventually('the call', () => stage.calls.length === 1)
  stage.log('first')
  await eventually('the message to arrive', () => received.includes('first') && token !== undefined)
  const { sessionId, protocolVersion } = first
  await before.close()
  assert.match(String(await lost), /closed/i)
  stage.log('missed')
  stage.answer()

  const second = new StreamableHTTPClientTransport(new URL(url), { ...(sessionId === undefined ? {} : { sessionId }) })
  if (protocolVersion !== undefined) second.setProtocolVersion(protocolVersion)
  const after = new Client({ name: 'c', version: '1' })
  const again: unknown[] = []
  after.fallbackNotificationHandler = async ({ params }) => void again.push(params?.['data'])
  await after.connect(second)
  const result = await after.request(
    { method: 'tools/call', params: { name: 't', arguments: {} } },
    CallToolResultSchema,
    token === undefined ? {} : { resumptionToken: token },
  )
  assert.equal(result.content, [{ type: 'text', text: 'ok' }])
  assert.equal(again, ['missed'])
  assert.is(stage.backend.calls('tools/call').length, 1)
  await after.close()
})

test.run()
