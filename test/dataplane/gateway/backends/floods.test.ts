/** A backend that sends requests without end costs the call or the stream, and no more answers than it takes. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { startSseChannel } from '../../../support/servers/channel-server.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

/** The most requests that the gateway may have on their way to a backend at a time. */
const MOST_ANSWERS = 256
const ping = (id: number) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`
/** The requests of a flood: many more, which arrive in a few turns of the event loop. */
const FLOOD = 5_000

/** Waits until no more answers come. */
async function calm(countAnswers: () => number): Promise<void> {
  let [before, same] = [-1, 0]
  await eventually('no more answers', () => {
    const count = countAnswers()
    same = count === before ? same + 1 : 0
    before = count
    return same > 10
  })
}

/** An answer that the backend does not take counts until the time limit of health checks: here that never comes. */
const PATIENT = { healthCheckInterval: '1h', healthCheckTimeout: '59m' }
/** A gateway asks again with each health check. */
const OFTEN = { healthCheckInterval: '1s', healthCheckTimeout: '900ms' }

/** A legacy backend that takes answers to its requests only when told to, and a gateway in front. */
async function startFlooded(checks = PATIENT) {
  const pending: ServerResponse[] = []
  const streams = new Set<ServerResponse>()
  const flooding = new Set<string>()
  /** Responses that the gateway has not ended yet. */
  const floods = new Set<ServerResponse>()
  /** How many answers each flood has got: some come so late that the next flood has begun. */
  const answers: number[] = []
  const begin = (res: ServerResponse) => res.writeHead(200, { 'content-type': 'text/event-stream' })
  const flood = () => {
    const first = FLOOD * (answers.push(0) - 1)
    return Array.from({ length: FLOOD }, (_, at) => `data: ${ping(first + at)}\n\n`).join('')
  }
  const backend = await startRawServer({
    era: 'legacy',
    call: (request) => answer(request, OK_RESULT),
    before(request, res) {
      const { id, method, result } = request.message
      if (result !== undefined) {
        const of = Math.floor(Number(id) / FLOOD)
        answers[of] = (answers[of] ?? 0) + 1
        pending.push(res)
        return true
      }
      if (request.method === 'GET') {
        begin(res).flushHeaders()
        streams.add(res)
        return true
      }
      if (method === undefined || !flooding.has(method)) return false
      floods.add(res.once('close', () => floods.delete(res)))
      begin(res).write(flood())
      return true
    },
  })
  const gateway = await startGateway({
    role: 'proxy',
    backends: [{ name: 'b', url: backend.url }],
    failureHandling: { circuitBreaker: { enabled: false }, ...checks },
  })
  const hasTools = () => eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
  await hasTools()
  return {
    gateway,
    backend,
    streams,
    flooding,
    hasTools,
    /** Writes a flood to each stream, and `end` behind it. */
    floodStreams(end: string) {
      for (const stream of streams) stream.write(flood() + end)
    },
    /** Waits until each flood has got an answer. */
    answered: () => eventually('answers', () => answers.every((count) => count > 0)),
    /** Once the gateway has ended the floods, takes all answers. Fails if a flood has got more than it may. */
    async take(): Promise<void> {
      await eventually('the end of the floods', () => floods.size === 0)
      await calm(() => {
        for (const res of pending.splice(0)) res.writeHead(202).end()
        return answers.reduce((sum, count) => sum + count, 0)
      })
      assert.ok(Math.max(...answers) <= MOST_ANSWERS, `${answers} answers`)
    },
    async close() {
      for (const res of [...pending, ...streams]) res.destroy()
      await gateway.close()
      await backend.close()
    },
  }
}

test('a flood of requests during a call ends the call, and the next one is served', async () => {
  const flooded = await startFlooded()
  const { url } = flooded.gateway
  try {
    const session = await openSession(url)
    const calls = [
      () => post(url, rpc('tools/call', { name: 't' }), session),
      () => postModern(url, 'tools/call', { name: 't' }),
    ]
    for (const call of calls) {
      flooded.flooding.add('tools/call')
      assert.match((await call()).text, /did not answer as it should/)
      flooded.flooding.clear()
      await flooded.answered()
      await flooded.take()
      assert.match((await call()).text, /"ok"/)
    }
  } finally {
    await flooded.close()
  }
})

test('a flood of requests during the gateway’s own requests fails these, and it asks again', async () => {
  const flooded = await startFlooded(OFTEN)
  try {
    for (const method of ['tools/list', 'initialize']) {
      flooded.flooding.add(method)
      const session = method === 'initialize' ? undefined : await openSession(flooded.gateway.url)
      const before = flooded.backend.calls(method).length
      if (session === undefined)
        assert.match((await postModern(flooded.gateway.url, 'tools/call', { name: 't' })).text, /./)
      for (const stream of flooded.streams)
        stream.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
      await eventually(`${method} again`, () => flooded.backend.calls(method).length > before)
      flooded.flooding.clear()
      await flooded.take()
      await flooded.hasTools()
    }
    assert.match((await postModern(flooded.gateway.url, 'tools/call', { name: 't' })).text, /"ok"/)
  } finally {
    await flooded.close()
  }
})

test('a flood of requests on a session’s stream is not answered beyond that', async () => {
  const flooded = await startFlooded()
  const { url } = flooded.gateway
  try {
    const session = await openSession(url)
    const listening = await EventReader.listen(url, session)
    assert.match((await post(url, rpc('tools/call', { name: 't' }), session)).text, /"ok"/)
    await eventually('a stream', () => flooded.streams.size > 0)
    flooded.floodStreams(
      'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}\n\n',
    )
    await eventually('the next message', () => listening.messages.length > 0)
    await flooded.answered()
    await flooded.take()
    assert.match((await post(url, rpc('tools/call', { name: 't' }), session)).text, /"ok"/)
    await listening.leave()
  } finally {
    await flooded.close()
  }
})

test('a server that floods its channel gets a bounded number of answers, and serves the next call', async () => {
  let calls = 0
  const server = await startSseChannel(({ id, method }, say) => {
    if (method === undefined || id === undefined) return
    const result = (text: string) => say(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${text}}`)
    if (method === 'initialize')
      result('{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}')
    else if (method === 'tools/list') result('{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}')
    else if (method !== 'tools/call') say(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"none"}}`)
    else if (++calls > 1) result(OK_RESULT)
    else for (let own = 0; own < FLOOD; own++) say(ping(own))
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', ...server.config, timeout: '3s' }] })
  try {
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    assert.match((await post(gateway.url, rpc('tools/call', { name: 't' }), session)).text, /did not answer in time/)
    const answers = server.messages.filter(({ method }) => method === undefined).length
    assert.ok(answers <= 2 * MOST_ANSWERS, `${answers} answers`)
    assert.match((await post(gateway.url, rpc('tools/call', { name: 't' }), session)).text, /"ok"/)
  } finally {
    await gateway.close()
    await server.close()
  }
})

test('requests that no client is asked leave a call its deadline', async () => {
  const backend = await startRawServer({
    era: 'legacy',
    call(request, res) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      let count = 0
      const timer = setInterval(() => {
        if (res.destroyed || count === 400) clearInterval(timer)
        if (count === 400) res.end(`data: ${answer(request, OK_RESULT)}\n\n`)
        else if (!res.destroyed) res.write(`data: ${ping(count)}\n\n`)
        count++
      }, 20)
      return undefined
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: backend.url, timeout: '1s' }] })
  try {
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    assert.match((await post(gateway.url, rpc('tools/call', { name: 't' }), session)).text, /did not answer in time/)
  } finally {
    await gateway.close()
    await backend.close()
  }
})

test.run()
