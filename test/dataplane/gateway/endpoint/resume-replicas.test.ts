/** Tests legacy clients that resume a stream at another replica than the one that has it. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import type { GatewayUnderTest } from '../../../support/gateway/gateway.ts'
import { openSession } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { buildLogMessage, Stage } from '../../../support/gateway/stage.ts'

let stage: Stage
const replicas = new RedisStage(test, () => stage.backend.url)
const { cleanups } = replicas
test.before.each(async () => {
  stage = await Stage.start()
  cleanups.push(() => stage.backend.close())
})

const twoReplicas = (): Promise<[GatewayUnderTest, GatewayUnderTest]> => replicas.twoReplicas({ role: 'proxy' })

type SessionHeaders = Record<string, string>
const call = async (url: string, session: SessionHeaders): Promise<EventReader> =>
  (await stage.beginCall(url, session)).leftBy(cleanups)
const listen = async (url: string, session: SessionHeaders, after?: string): Promise<EventReader> =>
  (await EventReader.listen(url, session, after)).leftBy(cleanups)

/** Breaks off a call at one replica and resumes its answer at the other. */
async function resumedElsewhere(one: { readonly url: string }, two: { readonly url: string }) {
  const session = await openSession(one.url)
  const broken = await call(one.url, session)
  await broken.leave()
  const back = await listen(two.url, session, broken.lastId)
  stage.log('live')
  await eventually('the live event', () => back.texts.includes('live'))
  return { session, back }
}

test('another replica sends the missed part of an answer and the rest', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  const broken = await call(one.url, session)
  await broken.leave()
  stage.log('missed')
  const back = await listen(two.url, session, broken.lastId)
  await eventually('the missed event', () => back.texts.includes('missed'))
  stage.log('live')
  await eventually('the live event', () => back.texts.includes('live'))
  // The client leaves again and returns to the first replica.
  await back.leave()
  stage.answer()
  const home = await listen(one.url, session, back.lastId)
  await eventually('the stream to end', () => home.ended)
  assert.equal([back.texts, home.texts], [['missed', 'live'], ['ok']])
})

test('a listening stream is resumed at another replica', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  const stream = await listen(one.url, session)
  await eventually('the first event', () => stream.events.length === 1)
  await call(one.url, session)
  await eventually('the backend’s stream', () => stage.gets.length === 1)
  await stream.leave()
  stage.gets[0]?.write(`data: ${buildLogMessage('missed')}\n\n`)
  const back = await listen(two.url, session, stream.lastId)
  await eventually('the missed event', () => back.texts.includes('missed'))
  await eventually('the backend’s next stream', () => stage.gets.length === 2)
  stage.gets[1]?.write(`data: ${buildLogMessage('live')}\n\n`)
  await eventually('the live event', () => back.texts.includes('live'))
  assert.equal(back.texts, ['missed', 'live'])
})

test('another replica sends a large answer whole, although its client reads slowly', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(one.url)
  const broken = await call(one.url, session)
  await broken.leave()
  stage.log('missed')
  const headers = { ...session, accept: 'text/event-stream', 'last-event-id': broken.lastId }
  const { body } = await fetch(two.url, { headers })
  const reader = (body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('missed')) text += (await reader.read()).value ?? ''
  const large = 'grüße, 世界 🌍 '.repeat(310_000)
  assert.ok(Buffer.byteLength(large) > 6 * 1024 * 1024)
  stage.answer(`{"content":[{"type":"text","text":"${large}"}]}`)
  // The client reads nothing for longer than a poll, and then slowly.
  const until = performance.now() + 1_500
  await eventually('more than a poll', () => performance.now() > until)
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    text += read.value
    await new Promise(setImmediate)
  }
  const [last] = [...text.matchAll(/^data: (.+)$/gm)].slice(-1)
  const { id, result } = JSON.parse(last?.[1] ?? '{}')
  assert.is(id, 'c1')
  assert.ok(result.content[0].text === large, 'the whole text')
})

test('a replica that no longer knows a stream says so at once', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(two.url)
  const broken = await call(one.url, session)
  const back = await listen(two.url, session, broken.lastId.replace(/^([^.]*)\.[^.]*/, '$1.zzz'))
  await eventually('the stream to end', () => back.ended)
  assert.is(back.messages.at(-1)?.error?.code, -32603)
})

test('an answer that was lost with its replica is an error', async () => {
  const [one, two] = await twoReplicas()
  const session = await openSession(two.url)
  const broken = await call(one.url, session)
  const id = broken.lastId.replace(/^[^.]*/, 'AAAAAAAAAAAA')
  const back = await listen(two.url, session, id)
  await eventually('the stream to end', () => back.ended)
  assert.equal(
    back.messages.map((message) => [message.id, message.error?.code]),
    [['c1', -32603]],
  )
})

test('if the replica with an answer is killed, the client that resumed elsewhere soon gets an error', async () => {
  const [one, two] = await replicas.oneToKill({ role: 'proxy' })
  const { session, back } = await resumedElsewhere(one, two)
  await one.end('SIGKILL')
  await eventually('the stream to end', () => back.ended)
  assert.equal(
    back.messages.map(({ id, params, error }) => [id, params?.data ?? error?.code]),
    [
      [undefined, 'live'],
      ['c1', -32603],
    ],
  )
  assert.is((await listen(two.url, session, back.lastId)).status, 204)
})

test('if the replica with the client is killed, the answer waits for the client at its own replica', async () => {
  const [two, one] = await replicas.oneToKill({ role: 'proxy' })
  const { session, back } = await resumedElsewhere(one, two)
  await two.end('SIGKILL')
  stage.answer()
  const home = await listen(one.url, session, back.lastId)
  await eventually('the stream to end', () => home.ended)
  assert.equal(home.texts, ['ok'])
})

test.run()
