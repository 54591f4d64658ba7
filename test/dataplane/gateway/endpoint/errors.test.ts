import { connect as connectSocket } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import {
  BASE_HEADERS,
  MODERN,
  modern,
  openSession,
  parseAnswer,
  parseBatch,
  post,
  postModern,
  rpc,
} from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

let backend: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [
      tool('t'),
      `{"name":"h","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}`,
    ],
    call: (request) => answer(request, OK_RESULT),
  })
  gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }] })
})

test.after(async () => {
  await gateway.close()
  await backend.close()
})

const PING = rpc('ping')
const discover = modern('server/discover')
const call = modern('tools/call', { name: 'b_t', arguments: {} })

interface Case {
  readonly name: string
  readonly body?: string
  readonly headers?: Record<string, string>
  readonly status: number
  readonly code?: number
  readonly id?: unknown
}

const omitHeader = (name: string) => Object.fromEntries(Object.entries(call.headers).filter(([key]) => key !== name))
const meta = (value: unknown) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'b_t', _meta: value } })
const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

const posts: readonly Case[] = [
  { name: 'malformed JSON', body: '{"jsonrpc"', status: 400, code: -32700, id: null },
  { name: 'no body', body: '', status: 400, code: -32700, id: null },
  { name: 'not a message', body: '{}', status: 400, code: -32600, id: null },
  ...Object.entries({
    'params: []': '{"jsonrpc":"2.0","id":ID,"method":"ping","params":[]}',
    'params that are a text': '{"jsonrpc":"2.0","id":ID,"method":"tools/list","params":"x"}',
    'params twice': '{"jsonrpc":"2.0","id":ID,"method":"ping","params":{},"params":{}}',
    'jsonrpc 1.0': '{"jsonrpc":"1.0","id":ID,"method":"ping"}',
    'a method that is a number': '{"jsonrpc":"2.0","id":ID,"method":5}',
  }).flatMap(([name, body]) => [
    { name, body: body.replace('ID', '"a"'), status: 400, code: -32600, id: 'a' },
    { name: `${name}, a number for an id`, body: body.replace('ID', '7.5'), status: 400, code: -32600, id: 7.5 },
    { name: `${name}, no id`, body: body.replace('ID', 'null'), status: 400, code: -32600, id: null },
    { name: `${name}, two ids`, body: body.replace('ID', '1,"id":2'), status: 400, code: -32600, id: null },
  ]),
  { name: 'a request whose id is null', body: rpc('ping', {}, null), status: 400, code: -32600, id: null },
  { name: 'a batch', body: `[${PING}]`, status: 400, code: -32600, id: null },
  { name: 'an empty batch', body: '[]', status: 400, code: -32600, id: null },
  { name: 'text', headers: { 'content-type': 'text/plain' }, status: 415, code: -32600 },
  { name: 'a compressed body', headers: { 'content-encoding': 'gzip' }, status: 415, code: -32600 },
  {
    name: 'the encoding that is none',
    body: discover.body,
    headers: { ...discover.headers, 'content-encoding': 'identity' },
    status: 200,
  },
  {
    name: 'JSON with a charset',
    body: discover.body,
    headers: { ...discover.headers, 'content-type': 'application/json; charset=utf-8' },
    status: 200,
  },
  { name: 'takes JSON only', headers: { accept: 'application/json' }, status: 406, code: -32600 },
  { name: 'takes events only', headers: { accept: 'text/event-stream' }, status: 406, code: -32600 },
  { name: 'refuses events', headers: { accept: 'application/json, text/event-stream;q=0' }, status: 406, code: -32600 },
  { name: 'takes anything', body: discover.body, headers: { ...discover.headers, accept: '*/*' }, status: 200 },
  {
    name: 'takes both, in capitals',
    body: discover.body,
    headers: { ...discover.headers, accept: 'Application/JSON, text/*' },
    status: 200,
  },
  { name: 'no session', body: PING, status: 400, code: -32600, id: 1 },
  { name: 'an unknown session', body: PING, headers: { 'mcp-session-id': 'nobody' }, status: 404, code: -32001, id: 1 },
  {
    name: 'an unknown legacy revision',
    body: PING,
    headers: { 'mcp-session-id': 'nobody', 'mcp-protocol-version': '1999-01-01' },
    status: 400,
    code: -32022,
  },
  { name: 'a response without a session', body: '{"jsonrpc":"2.0","id":1,"result":{}}', status: 400, code: -32600 },
  { name: 'initialize without a version', body: rpc('initialize'), status: 400, code: -32602, id: 1 },
  {
    name: 'initialize with a modern header',
    body: rpc('initialize', { protocolVersion: '2025-11-25' }),
    headers: { 'mcp-protocol-version': MODERN },
    status: 400,
    code: -32020,
  },
  { name: 'a foreign origin', body: PING, headers: { origin: 'https://evil.example' }, status: 403, code: -32600 },
  { name: 'origin null', body: PING, headers: { origin: 'null' }, status: 403, code: -32600 },
  {
    name: 'an own origin',
    body: discover.body,
    headers: { ...discover.headers, origin: 'http://localhost:3000' },
    status: 200,
  },

  { name: 'modern: fine', body: call.body, headers: call.headers, status: 200 },
  {
    name: 'modern: header without a body that agrees',
    body: PING,
    headers: { 'mcp-protocol-version': MODERN },
    status: 400,
    code: -32602,
    id: 1,
  },
  {
    name: 'modern: no version header',
    body: call.body,
    headers: omitHeader('mcp-protocol-version'),
    status: 400,
    code: -32020,
    id: 1,
  },
  { name: 'modern: no method header', body: call.body, headers: omitHeader('mcp-method'), status: 400, code: -32020 },
  { name: 'modern: no name header', body: call.body, headers: omitHeader('mcp-name'), status: 400, code: -32020 },
  {
    name: 'modern: another version in the header',
    body: call.body,
    headers: { ...call.headers, 'mcp-protocol-version': '2025-11-25' },
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: another method in the header',
    body: call.body,
    headers: { ...call.headers, 'mcp-method': 'tools/list' },
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: method in capitals',
    body: call.body,
    headers: { ...call.headers, 'mcp-method': 'Tools/Call' },
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: another name in the header',
    body: call.body,
    headers: { ...call.headers, 'mcp-name': 'b_other' },
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: the name in Base64',
    body: call.body,
    headers: { ...call.headers, 'mcp-name': '=?base64?Yl90?=' },
    status: 200,
  },
  {
    name: 'modern: bad Base64',
    body: call.body,
    headers: { ...call.headers, 'mcp-name': '=?base64?Yl90!?=' },
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: an unknown revision',
    body: meta({ [VERSION]: '2099-01-01', [CAPABILITIES]: {} }),
    headers: { ...call.headers, 'mcp-protocol-version': '2099-01-01' },
    status: 400,
    code: -32022,
    id: 1,
  },
  {
    name: 'modern: a legacy revision',
    body: meta({ [VERSION]: '2025-06-18', [CAPABILITIES]: {} }),
    headers: { ...call.headers, 'mcp-protocol-version': '2025-06-18' },
    status: 400,
    code: -32022,
  },
  {
    name: 'modern: a revision that is no text',
    body: meta({ [VERSION]: 5, [CAPABILITIES]: {} }),
    headers: call.headers,
    status: 400,
    code: -32602,
  },
  {
    name: 'modern: no capabilities',
    body: meta({ [VERSION]: MODERN }),
    headers: call.headers,
    status: 400,
    code: -32602,
  },
  { name: 'modern: no name', ...modern('tools/call'), status: 400, code: -32602 },
  { name: 'modern: an unknown tool', ...modern('tools/call', { name: 'b_nothing' }), status: 200, code: -32602, id: 1 },
  { name: 'modern: an unknown method', ...modern('nothing/here'), status: 404, code: -32601, id: 1 },
  { name: 'modern: a retired method', ...modern('ping'), status: 404, code: -32601 },
  { name: 'modern: initialize', ...modern('initialize'), status: 404, code: -32601 },
  { name: 'modern: a method of Object', ...modern('constructor'), status: 404, code: -32601 },
  {
    name: 'modern: a method of the legacy era',
    ...modern('resources/subscribe', { uri: 'x:y' }),
    status: 404,
    code: -32601,
  },
  { name: 'modern: a cursor that is not ours', ...modern('tools/list', { cursor: 'x' }), status: 400, code: -32602 },
  {
    name: 'modern: a header parameter is missing',
    ...modern('tools/call', { name: 'b_h', arguments: { r: 'eu' } }),
    status: 400,
    code: -32020,
  },
  {
    name: 'modern: a session id is not looked at',
    body: discover.body,
    headers: { ...discover.headers, 'mcp-session-id': 'nobody' },
    status: 200,
  },
]
for (const { name, body = PING, headers = {}, status, code, id } of posts)
  test(`POST: ${name}`, async () => {
    const answer = await post(gateway.url, body, headers)
    assert.is(answer.status, status, answer.text)
    assert.is(answer.json.jsonrpc, '2.0')
    assert.is(answer.json.error?.code, code)
    if (id !== undefined) assert.is(answer.json.id, id)
  })

test('the answer to an unsupported version tells the supported ones', async () => {
  const body = meta({ [VERSION]: '2099-01-01', [CAPABILITIES]: {} })
  const { json } = await post(gateway.url, body, { ...call.headers, 'mcp-protocol-version': '2099-01-01' })
  assert.equal(json.error.data, {
    supported: ['2026-07-28'],
    requested: '2099-01-01',
  })
})

test('a modern notification is accepted', async () => {
  const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  const answer = await post(gateway.url, body, {
    'mcp-protocol-version': MODERN,
    'mcp-method': 'notifications/cancelled',
  })
  assert.is(answer.status, 202)
  assert.is(answer.text, '')
})

test('errors that belong to a request of a session come with HTTP 200', async () => {
  const session = await openSession(gateway.url)
  const cases: readonly [string, number][] = [
    [rpc('nothing/here'), -32601],
    [rpc('logging/setLevel', { level: 'loud' }), -32602],
    [rpc('tools/call', { name: 'b_nothing' }), -32602],
    [rpc('tools/call', {}), -32602],
    [rpc('tools/list', { cursor: '' }), -32602],
  ]
  for (const [body, code] of cases) {
    const { status, json } = await post(gateway.url, body, session)
    assert.is(status, 200, body)
    assert.is(json.error.code, code, body)
    assert.is(json.id, 1)
  }
})

test('notifications and responses in a session are accepted', async () => {
  const session = await openSession(gateway.url)
  for (const body of [
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":1,"result":{}}',
  ]) {
    const { status, text } = await post(gateway.url, body, session)
    assert.is(status, 202)
    assert.is(text, '')
  }
})

for (const [requested, answered] of [
  ['2025-11-25', '2025-11-25'],
  ['2025-06-18', '2025-06-18'],
  ['2025-03-26', '2025-03-26'],
  ['2024-11-05', '2025-11-25'],
  ['2026-07-28', '2025-11-25'],
  ['nonsense', '2025-11-25'],
] as const)
  test(`initialize with ${requested} is answered with ${answered}`, async () => {
    const session = await openSession(gateway.url, {}, requested)
    assert.is(session['mcp-protocol-version'], answered)
    const { 'mcp-protocol-version': _, ...bare } = session
    assert.is((await post(gateway.url, PING, bare)).status, 200)
  })

test('batches are accepted in revision 2025-03-26 and refused in all others', async () => {
  const note = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
  const call = rpc('tools/call', { name: 'b_t' }, 'c')
  const batch = `[${rpc('ping', {}, 1)}, ${note}, ${call}, ${rpc('nothing', {}, 2)}]`
  for (const revision of ['2025-06-18', '2025-11-25']) {
    const { status, json } = await post(gateway.url, batch, await openSession(gateway.url, {}, revision))
    assert.is(status, 400)
    assert.is(json.error.code, -32600)
  }
  const session = await openSession(gateway.url, {}, '2025-03-26')
  const answered = await post(gateway.url, batch, session)
  assert.is(answered.status, 200)
  const byId = new Map(parseBatch(answered).map((answer) => [answer.id, answer]))
  assert.is(byId.size, 3)
  assert.equal(byId.get(1), { jsonrpc: '2.0', id: 1, result: {} })
  assert.equal(byId.get('c'), { jsonrpc: '2.0', id: 'c', result: JSON.parse(OK_RESULT) })
  assert.is(byId.get(2)?.error.code, -32601)

  assert.is((await post(gateway.url, `[${note}]`, session)).status, 202)
  const tooMany = `[${Array(65).fill(note)}]`
  for (const wrong of ['[]', '[5]', `[${rpc('initialize', {})}]`, `[${discover.body}]`, tooMany])
    assert.is((await post(gateway.url, wrong, session)).status, 400, wrong.slice(0, 60))
})

test('a body over 8 MiB is refused, announced or not', async () => {
  const big = rpc('tools/list', { x: 'x'.repeat(8 * 1024 * 1024) })
  assert.is((await post(gateway.url, big)).status, 413)
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(big))
      controller.close()
    },
  })
  const answer = await fetch(gateway.url, {
    method: 'POST',
    headers: BASE_HEADERS,
    body: stream,
    duplex: 'half',
  } as RequestInit)
  assert.is(answer.status, 413)
})

test('a client that sends far too much gets the reason before the connection ends', async () => {
  const remote = rpc('tools/list', { x: 'x'.repeat(20 * 1024 * 1024) })
  for (let round = 0; round < 6; round++) assert.is((await post(gateway.url, remote)).status, 413)
})

test('a body just under 8 MiB is accepted', async () => {
  const args = { x: 'x'.repeat(8 * 1024 * 1024 - 1000) }
  const { status, json } = await postModern(gateway.url, 'tools/call', { name: 'b_t', arguments: args })
  assert.is(status, 200)
  assert.equal(json.result, { content: [{ type: 'text', text: 'ok' }] })
})

const others: readonly [string, string, Record<string, string>, number][] = [
  ['GET without event-stream', 'GET', { accept: 'application/json' }, 406],
  ['GET without a session', 'GET', { accept: 'text/event-stream' }, 400],
  ['GET with an unknown session', 'GET', { accept: 'text/event-stream', 'mcp-session-id': 'x' }, 404],
  ['GET in the modern era', 'GET', { accept: 'text/event-stream', 'mcp-protocol-version': MODERN }, 405],
  ['DELETE without a session', 'DELETE', {}, 400],
  ['DELETE of an unknown session', 'DELETE', { 'mcp-session-id': 'x' }, 404],
  ['DELETE in the modern era', 'DELETE', { 'mcp-protocol-version': MODERN }, 405],
  ['PUT', 'PUT', {}, 405],
  ['PATCH', 'PATCH', {}, 405],
  ['OPTIONS', 'OPTIONS', {}, 405],
]
for (const [name, method, headers, status] of others)
  test(name, async () => {
    const answer = await parseAnswer(await fetch(gateway.url, { method, headers }))
    assert.is(answer.status, status, answer.text)
    if (status === 405) assert.ok(answer.headers.get('allow')?.includes('POST'))
  })

test('other paths are not found', async () => {
  for (const path of ['/mcp/', '/status', '/healthz', '/.well-known/oauth-protected-resource', '/sse'])
    assert.is((await fetch(gateway.base + path)).status, 404, path)
})

test('a path beside the endpoint says where MCP is', async () => {
  for (const path of ['/mcp/', '/sse', '/mcp/sse']) {
    const answer = await fetch(gateway.base + path, { method: 'POST', body: PING })
    assert.is(answer.status, 404)
    assert.match(await answer.text(), 'MCP is served at /mcp.')
  }
})

test('null counts as absent: params, and the cursor of lists', async () => {
  const session = await openSession(gateway.url)
  for (const method of ['ping', 'tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])
    for (const params of ['null', '{"cursor":null}']) {
      const body = `{"jsonrpc":"2.0","params" : ${params},"id":7,"method":"${method}"}`
      const { status, json } = await post(gateway.url, body, session)
      assert.is(status, 200, `${method} ${params}`)
      assert.is(json.id, 7)
      assert.ok(json.result, JSON.stringify(json))
    }
  const twice = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":null}'
  assert.is((await post(gateway.url, twice, session)).json.error.code, -32600)
  const notification = '{"jsonrpc":"2.0","method":"notifications/initialized","params":null}'
  assert.is((await post(gateway.url, notification, session)).status, 202)
})

test('a byte order mark before a request is skipped', async () => {
  const session = await openSession(gateway.url)
  const { json } = await post(gateway.url, '\ufeff{"jsonrpc":"2.0","id":7,"method":"ping"}', session)
  assert.equal(json, { jsonrpc: '2.0', id: 7, result: {} })
  for (const body of ['\ufeff', '\uffff{}']) assert.is((await post(gateway.url, body, session)).json.error.code, -32700)
})

/** Sends bytes unchanged and returns the first line of the answer. */
function sendRaw(text: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    const socket = connectSocket(Number(port), hostname, () => socket.write(text))
    socket.once('data', (data) => {
      resolve(data.toString().split('\r\n', 1)[0] as string)
      socket.destroy()
    })
    socket.once('error', reject)
    socket.once('close', () => resolve('closed'))
  })
}

const buildHead = (host: string) =>
  `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: ${PING.length}\r\n\r\n${PING}`

test('a foreign host is refused; an address and localhost are accepted', async () => {
  assert.match(await sendRaw(buildHead('evil.example')), / 403 /)
  assert.match(await sendRaw(buildHead('localhost:1')), / 400 /)
  assert.match(await sendRaw(buildHead('127.0.0.1')), / 400 /)
})

test('a client that goes away in the middle of its body leaves nothing behind', async () => {
  const { hostname, port } = new URL(gateway.url)
  await new Promise<void>((resolve) => {
    const socket = connectSocket(Number(port), hostname, () => {
      socket.write(
        'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: 500\r\n\r\n{"json',
      )
      setTimeout(() => socket.destroy(), 20)
    })
    socket.once('close', () => resolve())
  })
  assert.is((await post(gateway.url, call.body, call.headers)).status, 200)
})

test.run()
