/** What backends say unasked reaches a client where it listens, whichever replica has called the backend. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { GatewayReplica } from '../../../support/gateway/replica.ts'
import { logged } from '../../../support/gateway/stage.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

let redis: RedisServer
const cleanups: (() => unknown)[] = []
test.before(async () => {
  redis = await startRedis()
})
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
test.after(() => redis.stop())

/** A backend that gives each session one stream, as the SDK’s does, and speaks on it while it is called. */
async function startSpeaker(): Promise<{ backend: RawServer; say(text: string): boolean; streams(): number }> {
  let stream: ServerResponse | undefined
  let streams = 0
  const say = (text: string) => stream?.write(`data: ${logged(text)}\n\n`) !== undefined
  const backend = await startRawServer({
    era: 'legacy',
    call(request) {
      say(`called ${JSON.stringify(request.message.params?.['arguments'])}`)
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
  return { backend, say, streams: () => streams }
}

async function twoProcesses(url: string): Promise<[GatewayReplica, GatewayReplica]> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-hearing-'))
  cleanups.push(() => rm(directory, { recursive: true }))
  const configFile = join(directory, 'gateway.yaml')
  const config = {
    name: directory.slice(-6).toLowerCase(),
    namespace: 'default',
    role: 'proxy',
    incomingAuth: { type: 'anonymous' },
    backends: [{ name: 'b', url }],
    sessionStorage: { redis: { addresses: [redis.address] } },
  }
  await writeFile(configFile, JSON.stringify(config))
  const [one, two] = await Promise.all([GatewayReplica.start(configFile), GatewayReplica.start(configFile)])
  cleanups.push(() => Promise.all([one.end(), two.end()]))
  return [one, two]
}

const call = (number: number) => rpc('tools/call', { name: 't', arguments: { number } })
const texts = ({ messages }: EventReader) => messages.map(({ params }) => params?.data)

async function listen(url: string, session: Record<string, string>, after?: string): Promise<EventReader> {
  const headers = {
    ...session,
    accept: 'text/event-stream',
    ...(after === undefined ? {} : { 'last-event-id': after }),
  }
  const reader = await EventReader.open(url, { headers })
  cleanups.push(() => reader.leave())
  await eventually('the first event', () => reader.events.length > 0)
  return reader
}

test('a session with a backend that one replica opens is heard at the other, and outlives its replica', async () => {
  const { backend, say, streams } = await startSpeaker()
  const [one, two] = await twoProcesses(backend.url)
  const session = await openSession(one.url)
  const stream = await listen(one.url, session)
  assert.is(streams(), 0)
  // What the backend says while it is called for the first time is heard already.
  assert.is((await post(two.url, call(1), session)).status, 200)
  await eventually('what it says', () => texts(stream).includes('called {"number":1}'))
  await two.end('SIGKILL')
  say('still there')
  await eventually('what it says', () => texts(stream).includes('still there'))
  assert.is(streams(), 1, 'it was heard by one replica all the time')
})

test('a client that listens elsewhere takes its backends’ streams along', async () => {
  const { backend, say, streams } = await startSpeaker()
  const [one, two] = await twoProcesses(backend.url)
  const session = await openSession(one.url)
  const first = await listen(one.url, session)
  await post(one.url, call(1), session)
  await eventually('what it says', () => texts(first).includes('called {"number":1}'))
  const second = await listen(two.url, session, first.lastId)
  await eventually('the other stream to end', () => first.ended)
  await eventually('its next stream', () => streams() === 2, 10_000)
  await one.end('SIGKILL')
  say('over there')
  await eventually('what it says', () => texts(second).includes('over there'))
  assert.is((await post(two.url, call(2), session)).status, 200)
  await eventually('what it says', () => texts(second).includes('called {"number":2}'))
})

test.run()
