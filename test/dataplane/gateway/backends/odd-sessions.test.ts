/** Tests servers whose sessions deviate from the specification but work with official clients. */
import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { endFileOnError } from '../../../support/or-fail.ts'
import { answer, OK_RESULT, type RawServerOptions, startRawServer, tool } from '../../../support/servers/raw-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function startBehind(before: NonNullable<RawServerOptions['before']>) {
  const server = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT), before })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  return { server, gateway }
}

/** Lists and calls with clients of both SDKs, in both eras. */
async function judge(url: string): Promise<void> {
  const clients = [
    (await connectV1(url)).client,
    (await connect(url, 'modern')).client,
    (await connect(url, 'legacy')).client,
  ]
  cleanups.push(...clients.map((client) => () => client.close()))
  for (const client of clients) {
    assert.equal(
      (await client.listTools()).tools.map(({ name }) => name),
      ['t'],
    )
    for (let time = 0; time < 2; time++) assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
  }
}

const results: Readonly<Record<string, string>> = {
  'tools/list': `{"tools":[${tool('t')}]}`,
  'tools/call': OK_RESULT,
}

for (const [what, late, isFirst] of [
  ['lists and calls', ['tools/list', 'tools/call'], false],
  ['calls alone', ['tools/call'], false],
  ['calls, before they are accepted', ['tools/list', 'tools/call'], true],
] as const)
  test(`after a POST that is only accepted, the answer is read from the GET stream: ${what}`, async () => {
    const streams = new Map<unknown, ServerResponse>()
    const waiting = new Map<unknown, string[]>()
    const sendOn = (session: unknown, message: string) => {
      const stream = streams.get(session)
      const text = `data: ${message}\n\n`
      if (stream === undefined) waiting.set(session, [...(waiting.get(session) ?? []), text])
      else stream.write(text)
    }
    const { gateway } = await startBehind((request, res) => {
      const session = request.headers['mcp-session-id']
      const { method = '' } = request.message
      if (request.method === 'GET') {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        streams.set(session, res)
        for (const text of waiting.get(session) ?? []) res.write(text)
        waiting.delete(session)
        return true
      }
      if (!(late as readonly string[]).includes(method)) return false
      const message = answer(request, results[method] as string)
      if (isFirst) {
        sendOn(session, message)
        // The answer arrives on the stream before the POST is accepted.
        setTimeout(() => res.writeHead(202).end(), 50)
      } else {
        res.writeHead(202).end()
        sendOn(session, message)
      }
      return true
    })
    await judge(gateway.url)
  })

const LATE_FORMS: Readonly<Record<string, (message: string) => string>> = {
  'as it is': (message) => `data: ${message}`,
  'with a member called method in the result': (message) =>
    `data: ${message.replace('"ok"', '"ok","_meta":{"method":1}')}`,
  'in an array, behind a notification': (message) =>
    `data: [{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},${message}]`,
  'behind a byte order mark': (message) => `data: \ufeff${message}`,
  'with all members that there are': (message) =>
    `data: ${message.replace('{', '{"method":null,"params":null,"error":null,')}`,
  'of 2 MiB': (message) => `data: ${message.replace('"ok"', `"ok","_meta":{"x":"${'x'.repeat(2_097_152)}"}`)}`,
}
const ACCEPTANCES: readonly (readonly [status: number, headers: Record<string, string>, body: string])[] = [
  [202, {}, ''],
  [202, { 'content-type': 'text/plain' }, 'Accepted'],
  [202, { 'content-type': 'application/json' }, '{"status":"accepted"}'],
  [202, { 'content-type': 'application/json' }, 'null'],
  [202, { 'content-type': 'text/event-stream' }, ''],
  [200, { 'content-type': 'text/event-stream' }, ': wait for it\n\n'],
  [200, { 'content-type': 'application/json' }, '\n'],
  [200, {}, ''],
  [204, {}, ''],
]

test('an answer on the GET stream is read in any form, whatever the acceptance looked like', async () => {
  const streams = new Map<unknown, ServerResponse>()
  let form: (message: string) => string = (message) => message
  let acceptance: (typeof ACCEPTANCES)[number] = [202, {}, '']
  const { gateway } = await startBehind((request, res) => {
    const session = request.headers['mcp-session-id']
    if (request.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      streams.set(session, res)
      return true
    }
    if (request.message.method === 'ping') {
      res.writeHead(202).end('Accepted')
      return true
    }
    if (request.message.method !== 'tools/call') return false
    const [status, headers, body] = acceptance
    res.writeHead(status, headers).end(body)
    const give = () => streams.get(session)?.write(`${form(answer(request, OK_RESULT))}\n\n`)
    if (streams.has(session)) give()
    else
      endFileOnError(async () => {
        await eventually('its stream', () => streams.has(session))
        give()
      })()
    return true
  })
  const session = await openSession(gateway.url)
  let id = 0
  const call = async () =>
    readText((await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, ++id), session)).json.result)
  for (const [what, one] of Object.entries(LATE_FORMS)) {
    form = one
    assert.is(await call(), 'ok', what)
  }
  form = LATE_FORMS['as it is'] as typeof form
  for (const one of ACCEPTANCES) {
    acceptance = one
    assert.is(await call(), 'ok', JSON.stringify(one))
  }
})

test('a call that is only accepted by a server without a stream fails at once', async () => {
  const { gateway } = await startBehind(({ message }, res) => {
    if (message.method !== 'tools/call') return false
    res.writeHead(202).end()
    return true
  })
  const session = await openSession(gateway.url)
  const { json } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
  assert.is(json.error?.message, 'The backend did not answer as it should.')
  assert.match((await gateway.status()).backends[0]?.lastError?.message ?? '', 'HTTP 202')
})

/** Renews the session id in each answer, and accepts only the newest. */
function createRenaming(): NonNullable<RawServerOptions['before']> {
  const newest = new Map<string, number>()
  return (request, res) => {
    const { method } = request.message
    if (method === 'server/discover' || request.method !== 'POST') return false
    const [name, number] =
      method === 'initialize' ? [`session ${newest.size}`, 0] : String(request.headers['mcp-session-id']).split(':', 2)
    if (name === undefined || (newest.get(name) ?? 0) !== Number(number)) {
      res.writeHead(404).end('Session not found')
      return true
    }
    newest.set(name, Number(number) + 1)
    const writeHead = res.writeHead.bind(res)
    res.writeHead = ((status: number, headers: Record<string, string> = {}) =>
      writeHead(status, { ...headers, 'mcp-session-id': `${name}:${Number(number) + 1}` })) as typeof res.writeHead
    return false
  }
}

test('a session whose id changes with each answer uses the newest id', async () => {
  const { gateway, server } = await startBehind(createRenaming())
  await judge(gateway.url)
  assert.is(server.calls('ping').length, 0)
  assert.is(server.calls('initialize').length, 4, 'the gateway’s own session, and one of each client')
})

test('a session id that comes after initialize is used from then on', async () => {
  let opened = 0
  const { gateway, server } = await startBehind((request, res) => {
    const { method } = request.message
    const writeHead = res.writeHead.bind(res)
    if (method === 'initialize')
      res.writeHead = ((status: number, { 'mcp-session-id': _, ...headers }: Record<string, string>) =>
        writeHead(status, headers)) as typeof res.writeHead
    else if (method === 'notifications/initialized') {
      res.writeHead(202, { 'mcp-session-id': `late-${++opened}` }).end()
      return true
    }
    return false
  })
  await judge(gateway.url)
  for (const { headers } of server.calls('tools/call')) assert.match(headers['mcp-session-id'] as string, /^late-/)
})

test('a server’s questions within the gateway’s own requests are answered', async () => {
  const pending = new Map<unknown, () => void>()
  const answers: unknown[] = []
  let count = 0
  const { gateway } = await startBehind((request, res) => {
    const { method, id, result, error } = request.message
    if (method === undefined && id !== undefined) {
      answers.push(result ?? error?.code)
      pending.get(id)?.()
      res.writeHead(202).end()
      return true
    }
    const body =
      method === 'initialize'
        ? '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}'
        : results[method ?? '']
    if (body === undefined || method === 'tools/call') return false
    res.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': 'one' })
    const own = ++count
    pending.set(own, () => res.end(`data: ${answer(request, body)}\n\n`))
    res.write(`data: {"jsonrpc":"2.0","id":${own},"method":"${method === 'initialize' ? 'ping' : 'roots/list'}"}\n\n`)
    return true
  })
  await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
  assert.equal(answers.slice(0, 2), [{}, -32601])
})

test.run()
