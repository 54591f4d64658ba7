/** Tests servers that lose their sessions, and the ways in which they report it. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connectV1, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
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

type Refuse = (request: RawRequest, res: ServerResponse) => void

const withStatus =
  (status: number, body = 'Session not found'): Refuse =>
  (_request, res) =>
    void res.writeHead(status, { 'content-type': 'text/plain' }).end(body)
const withCode =
  (code: number, status = 200): Refuse =>
  ({ message: { id } }, res) =>
    void res
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error: { code, message: 'Session not found' } }))

const ways: Readonly<Record<string, Refuse>> = {
  '404': withStatus(404),
  '400 with -32000': withCode(-32000, 400),
  '400 with a text': withStatus(400, 'Bad Request: No valid session ID provided'),
  '401 with a text': withStatus(401),
  '410': withStatus(410, ''),
  '422': withStatus(422),
  '500': withStatus(500),
  '503': withStatus(503),
  '200 with -32600': withCode(-32600),
  '200 with -32001': withCode(-32001),
  '200 with -32602': withCode(-32602),
  'a reset': (_request, res) => void res.socket?.destroy(),
}
/** Returns whether such an answer means that the request was not processed, so that any call may be sent again. */
const isUnread = (way: string) => /^4(00|01|04|10)/.test(way)

const TOOLS = [
  tool('plain'),
  tool('again', '"annotations":{"idempotentHint":true}'),
  tool('reads', '"annotations":{"readOnlyHint":true}'),
]

class Forgetful {
  server!: RawServer
  gateway!: GatewayUnderTest
  /** The sessions that have ended. */
  readonly lost = new Set<unknown>()
  opened = 0

  /** Ends all sessions so far. */
  forget(): void {
    for (let number = 1; number <= this.opened; number++) this.lost.add(`raw-session-${number}`)
  }

  static async start(refuse: Refuse, config: object = {}): Promise<Forgetful> {
    const one = new Forgetful()
    one.server = await startRawServer({
      era: 'legacy',
      tools: [...TOOLS, tool('gone'), tool('odd', '"annotations":{"readOnlyHint":true}')],
      call: (request, res) => {
        const name = request.message.params?.['name']
        if (name === 'odd') withCode(-32602)(request, res)
        else if (name === 'gone') withStatus(404, '')(request, res)
        else return answer(request, OK_RESULT)
        return undefined
      },
      before(request, res) {
        const { message, headers } = request
        if (message.method === 'initialize') one.opened++
        if (!one.lost.has(headers['mcp-session-id']) || request.method === 'DELETE') return false
        refuse(request, res)
        return true
      },
    })
    one.gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: one.server.url }], ...config })
    cleanups.push(
      () => one.server.close(),
      () => one.gateway.close(),
    )
    return one
  }
}

for (const [way, refuse] of Object.entries(ways))
  test(`a session that the backend ended, as ${way} says, is opened again`, async () => {
    const one = await Forgetful.start(refuse)
    const { client } = await connectV1(one.gateway.url)
    cleanups.push(() => client.close())
    const callTool = async (name: string) => readText(await client.callTool({ name, arguments: {} }))
    const countCalls = () => one.server.calls('tools/call').length
    assert.is(await callTool('plain'), 'ok')
    one.forget()
    for (const name of ['again', 'reads']) {
      assert.is(await callTool(name), 'ok', `${name}: sent once more`)
      one.forget()
    }
    const before = countCalls()
    if (isUnread(way)) assert.is(await callTool('plain'), 'ok')
    else {
      await callTool('plain').then(
        () => assert.unreachable('a call that may have been carried out is not repeated'),
        () => {},
      )
      assert.is(countCalls(), before + 1)
      assert.is(await callTool('plain'), 'ok', 'the next call works')
    }
    assert.is(
      (await postModern(one.gateway.url, 'tools/call', { name: 'again', arguments: {} })).json.result?.content[0].text,
      'ok',
    )
    one.forget()
    assert.is(
      (await postModern(one.gateway.url, 'tools/call', { name: 'again', arguments: {} })).json.result?.content[0].text,
      'ok',
    )
  })

for (const [way, refuse] of Object.entries(ways))
  test(`the gateway’s own session that the backend ended, as ${way} says, is opened again`, async () => {
    const one = await Forgetful.start(refuse, {
      failureHandling: { healthCheckInterval: '200ms', healthCheckTimeout: '150ms' },
    })
    await eventually('a list', async () => (await one.gateway.status()).backends[0]?.tools === 5)
    one.forget()
    const { opened } = one
    await eventually('a new session', () => one.opened > opened)
    const lists = one.server.calls('tools/list').length
    await eventually('lists in it', () => one.server.calls('tools/list').length > lists + 1)
    // On a busy machine a health check may exceed its timeout.
    await eventually('healthy', async () => (await one.gateway.status()).backends[0]?.health === 'healthy')
  })

for (const status of [200, 400])
  test(`if the session’s ping is answered, an error at ${status} is passed on, with one ping a second`, async () => {
    const refused = await startRawServer({
      era: 'legacy',
      call: ({ message: { id } }, res) => {
        withCode(-32602, status)({ message: { id } } as RawRequest, res)
        return undefined
      },
    })
    const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: refused.url }] })
    cleanups.push(
      () => refused.close(),
      () => gateway.close(),
    )
    const session = await openSession(gateway.url)
    const start = performance.now()
    for (let time = 0; time < 5; time++) {
      const { json } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, time), session)
      assert.equal(json.error, { code: -32602, message: 'Session not found' })
    }
    const most = 1 + Math.floor((performance.now() - start) / 1000)
    const pings = refused.calls('ping').length
    assert.ok(pings > 0 && pings <= most, `${pings} pings, ${most} at most`)
    assert.is(refused.calls('initialize').length, 2, 'the gateway’s own and the client’s')
    assert.is(refused.calls('tools/call').length, 5)
  })

test('if a live session refuses calls, it is pinged once a second, and other calls don’t wait', async () => {
  const one = await Forgetful.start(withStatus(404))
  const session = await openSession(one.gateway.url)
  const call = async (name: string) => (await post(one.gateway.url, rpc('tools/call', { name }), session)).json
  const start = performance.now()
  const refusals = await Promise.all([1, 2].map(() => call('gone')))
  for (const { error } of refusals) assert.is(error.code, -32603)
  const waiting = call('gone')
  assert.is((await call('plain')).result?.content[0].text, 'ok')
  assert.is((await waiting).error.code, -32603)
  const pings = one.server.calls('ping').length
  assert.ok(pings <= 2 + (performance.now() - start) / 1000, `${pings} pings`)
  assert.is(one.opened, 2, 'the gateway’s own and the client’s')
})

for (const [way, refuse] of Object.entries(ways).filter(([way]) => isUnread(way)))
  test(`a session that ends right after an answered ping, as ${way} says, is opened again`, async () => {
    const one = await Forgetful.start(refuse)
    const session = await openSession(one.gateway.url)
    const call = async (name: string) => (await post(one.gateway.url, rpc('tools/call', { name }), session)).json
    assert.equal((await call('odd')).error, { code: -32602, message: 'Session not found' })
    assert.is(one.server.calls('ping').length, 1)
    one.forget()
    assert.is((await call('plain')).result?.content[0].text, 'ok')
  })

test('an idempotent tool is called in the next session if the old one ended right after a ping', async () => {
  const others = Object.entries(ways).filter(([way]) => !isUnread(way) && way !== '200 with -32602')
  await Promise.all(
    others.map(async ([way, refuse]) => {
      const one = await Forgetful.start(refuse)
      const session = await openSession(one.gateway.url)
      const call = async (name: string) => (await post(one.gateway.url, rpc('tools/call', { name }), session)).json
      assert.is((await call('odd')).error.code, -32602)
      assert.is(one.server.calls('ping').length, 1)
      one.forget()
      assert.is((await call('again')).result?.content[0].text, 'ok', way)
    }),
  )
})

test('a list notices a session that has ended right after a ping, as a call does', async () => {
  const others = Object.entries(ways).filter(([way]) => way !== '200 with -32602')
  await Promise.all(
    others.map(async ([way, refuse]) => {
      const one = await Forgetful.start(refuse)
      const session = await openSession(one.gateway.url)
      assert.is((await post(one.gateway.url, rpc('tools/call', { name: 'odd' }), session)).json.error.code, -32602)
      assert.is(one.server.calls('ping').length, 1)
      one.forget()
      await post(one.gateway.url, rpc('tools/list'), session)
      const { headers } = one.server.calls('tools/list').at(-1) as RawRequest
      assert.not(one.lost.has(headers['mcp-session-id']), way)
    }),
  )
})

test('429 does not end the session', async () => {
  const one = await Forgetful.start(withStatus(429))
  const session = await openSession(one.gateway.url)
  const call = () => post(one.gateway.url, rpc('tools/call', { name: 'again', arguments: {} }), session)
  await call()
  one.forget()
  assert.ok((await call()).json.error)
  assert.is(one.server.calls('ping').length, 0)
})

test('if no new session can be opened, the old one stays', async () => {
  let isAway = false
  const server = await startRawServer({
    era: 'legacy',
    tools: TOOLS,
    call: (request) => answer(request, OK_RESULT),
    before(_request, res) {
      if (isAway) res.writeHead(503).end()
      return isAway
    },
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  const session = await openSession(gateway.url)
  const call = () => post(gateway.url, rpc('tools/call', { name: 'again', arguments: {} }), session)
  await call()
  isAway = true
  assert.ok((await call()).json.error)
  isAway = false
  assert.is((await call()).json.result?.content[0].text, 'ok')
  assert.equal([...new Set(server.calls('tools/call').map(({ headers }) => headers['mcp-session-id']))].length, 1)
})

test.run()
