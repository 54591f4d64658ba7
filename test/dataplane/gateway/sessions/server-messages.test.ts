/** Checks that a backend's unrequested messages reach a client where it listens, whichever replica called the backend. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { buildLogMessage } from '../../../support/gateway/stage.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let backend: RawServer
const replicas = new RedisStage(test, () => backend.url)
const { cleanups } = replicas

/** Starts a backend that gives each session one stream, as the SDK's does, and sends messages on it during calls. */
async function startSpeaker(): Promise<{ say(text: string): boolean; streams(): number }> {
  let stream: ServerResponse | undefined
  let streams = 0
  const sendLog = (text: string) => stream?.write(`data: ${buildLogMessage(text)}\n\n`) !== undefined
  backend = await startRawServer({
    era: 'legacy',
    call(request) {
      sendLog(`called ${JSON.stringify(request.message.params?.['arguments'])}`)
      return answer(request, OK_RESULT)
    },
    before({ method }, res) {
      if (method !== 'GET') return false
      if (stream !== undefined) {
        res.writeHead(409).end()
        return true
      }
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      stream = res
      streams++
      res.once('close', () => {
        stream = undefined
      })
      return true
    },
  })
  cleanups.push(() => backend.close())
  return { say: sendLog, streams: () => streams }
}

const oneToKill = () => replicas.oneToKill({ role: 'proxy' })

const call = (number: number) => rpc('tools/call', { name: 't', arguments: { number } })

async function listen(url: string, session: Record<string, string>, after?: string): Promise<EventReader> {
  const reader = await EventReader.listen(url, session, after)
  cleanups.push(() => reader.leave())
  await eventually('the first event', () => reader.events.length > 0)
  return reader
}

test('messages of a backend session opened at one replica arrive at the other, also after the first ends', async () => {
  const { say, streams } = await startSpeaker()
  const [two, one] = await oneToKill()
  const session = await openSession(one.url)
  const stream = await listen(one.url, session)
  assert.is(streams(), 0)
  const began = performance.now()
  assert.is((await post(two.url, call(1), session)).status, 200)
  // Messages that the backend sends during its first call arrive: the call waits up to a second for the stream.
  if (performance.now() - began < 1_000)
    await eventually('its message', () => stream.texts.includes('called {"number":1}'))
  else await eventually('its stream', () => streams() === 1)
  await two.end('SIGKILL')
  say('still there')
  await eventually('its message', () => stream.texts.includes('still there'))
  assert.is(streams(), 1, 'one replica listened all the time')
})

test('if a client listens at another replica, its backends’ streams move there', async () => {
  const { say, streams } = await startSpeaker()
  const [one, two] = await oneToKill()
  const session = await openSession(one.url)
  const first = await listen(one.url, session)
  await eventually('its message', async () => {
    await post(one.url, call(1), session)
    return first.texts.includes('called {"number":1}')
  })
  const second = await listen(two.url, session, first.lastId)
  await eventually('the other stream to end', () => first.ended)
  await eventually('its next stream', () => streams() === 2)
  await one.end('SIGKILL')
  say('over there')
  await eventually('its message', () => second.texts.includes('over there'))
  assert.is((await post(two.url, call(2), session)).status, 200)
  await eventually('its message', () => second.texts.includes('called {"number":2}'))
})

test.run()
