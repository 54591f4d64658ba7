import { connect as connectSocket } from 'node:net'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

/** The same sequence in every run, so that a failure can be reproduced. */
let seed = 20_261_120
const random = (below: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
  return seed % below
}

let backend: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('open'), tool('hidden')],
    call: (request) => answer(request, OK_RESULT),
  })
  gateway = await startGateway({
    backends: [{ name: 'b', url: backend.url }],
    aggregation: { tools: [{ workload: 'b', filter: ['open'] }] },
  })
  await postModern(gateway.url, 'tools/list')
})

test.after(async () => {
  await gateway.close()
  await backend.close()
})

const PIECES = [
  '{',
  '}',
  '[',
  ']',
  '"',
  ':',
  ',',
  '\\',
  '\\u0000',
  '\u0000',
  '\n',
  'null',
  '1e999',
  '-0',
  'é',
  '\ufeff',
  '"name":"b_hidden"',
  '"name":"hidden"',
  '"Name":"hidden"',
  '"id":1',
  '"method":"tools/call"',
  '"params":{}',
  '"_meta":{}',
  '"jsonrpc":"2.0"',
  '__proto__',
]

function mangle(text: string): Buffer {
  let bytes = Buffer.from(text)
  for (let times = 1 + random(4); times > 0; times--) {
    const at = random(bytes.length + 1)
    const cut = random(3) === 0 ? random(20) : 0
    const piece = random(4) === 0 ? Buffer.from([random(256)]) : Buffer.from(PIECES[random(PIECES.length)] as string)
    bytes = Buffer.concat([bytes.subarray(0, at), random(5) === 0 ? Buffer.alloc(0) : piece, bytes.subarray(at + cut)])
  }
  return bytes
}

test('mangled messages are answered, and never reach a tool that is hidden', async () => {
  const session = await openSession(gateway.url)
  const call = modern('tools/call', { name: 'b_open', arguments: { a: [1, { b: 'c"\\' }] } })
  backend.seen.length = 0
  for (let round = 0; round < 1_500; round++) {
    const era = random(2) === 0
    const body = mangle(era ? call.body : rpc('tools/call', { name: 'b_open', arguments: { x: 'y' } }))
    const headers = { ...BASE_HEADERS, ...(era ? call.headers : session) }
    const response = await fetch(gateway.url, { method: 'POST', headers, body: new Uint8Array(body) })
    const text = await response.text()
    assert.ok([200, 202, 400, 404].includes(response.status), `${response.status} to ${body}`)
    if (text !== '') assert.is(JSON.parse(text).jsonrpc, '2.0')
  }
  for (const { body, message } of backend.calls('tools/call')) {
    assert.is(message.params?.['name'], 'open')
    assert.is(body.match(/"name"/gi)?.length, 1, body)
  }
  assert.ok(backend.calls('tools/call').length > 0, 'some of them are still calls')
})

test('mangled headers are answered', async () => {
  const names = [
    'mcp-protocol-version',
    'mcp-method',
    'mcp-name',
    'mcp-session-id',
    'accept',
    'content-type',
    'origin',
    'authorization',
    'mcp-param-x',
  ]
  const values = [
    '',
    ' ',
    'x',
    '2026-07-28',
    '=?base64??=',
    '=?base64?////?=',
    'a'.repeat(5000),
    '\t',
    ',',
    'application/json;',
    '\u00e9',
    '2025-11-25, 2026-07-28',
  ]
  const call = modern('tools/call', { name: 'b_open' })
  for (let round = 0; round < 500; round++) {
    const headers: Record<string, string> = { ...BASE_HEADERS, ...call.headers }
    for (let times = 1 + random(3); times > 0; times--)
      headers[names[random(names.length)] as string] = values[random(values.length)] as string
    const { status } = await post(gateway.url, call.body, headers)
    assert.ok([200, 400, 403, 404, 406, 415].includes(status), `${status} to ${JSON.stringify(headers)}`)
  }
})

test('mangled HTTP does no harm', async () => {
  const { hostname, port } = new URL(gateway.url)
  const call = modern('tools/call', { name: 'b_open' })
  const head = Object.entries({ Host: 'localhost', ...BASE_HEADERS, ...call.headers }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  const whole = `POST /mcp HTTP/1.1\r\n${head.join('\r\n')}\r\ncontent-length: ${call.body.length}\r\n\r\n${call.body}`
  const chunked = `POST /mcp HTTP/1.1\r\n${head.join('\r\n')}\r\ntransfer-encoding: chunked\r\n\r\n5\r\n${call.body.slice(0, 5)}\r\n${(call.body.length - 5).toString(16)}\r\n${call.body.slice(5)}\r\n0\r\n\r\n`
  for (let round = 0; round < 300; round++) {
    const bytes = mangle(random(2) === 0 ? whole : chunked)
    await new Promise<void>((resolve) => {
      const socket = connectSocket(Number(port), hostname, () => socket.end(bytes))
      socket.on('data', () => {})
      socket.on('error', () => {})
      socket.on('close', () => resolve())
    })
  }
})

test('deep nesting, batches, invalid UTF-8 and bodies in chunks of any size do no harm', async () => {
  const session = await openSession(gateway.url)
  const call = modern('tools/call', { name: 'b_open', arguments: { x: 'DEEP' } })
  const old = rpc('tools/call', { name: 'b_open', arguments: { x: 'DEEP' } })
  for (const depth of [10, 1_000, 100_000]) {
    const nested = [
      `${'['.repeat(depth)}${']'.repeat(depth)}`,
      `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
      '['.repeat(depth),
      '{"name":'.repeat(depth),
    ]
    for (const value of nested)
      for (const [body, headers] of [
        [call.body.replace('"DEEP"', value), call.headers],
        [old.replace('"DEEP"', value), session],
      ] as const) {
        const { status } = await post(gateway.url, body, headers)
        assert.ok([200, 400].includes(status), `${status} at depth ${depth}`)
      }
  }
  for (const batch of ['[]', `[${old}]`, `[${old},${old}]`, `[${call.body}]`, '[1,null,{}]', `[${'['.repeat(1_000)}`])
    for (const headers of [call.headers, session]) {
      const { status } = await post(gateway.url, batch, headers)
      assert.ok([200, 202, 400].includes(status), `${status} to ${batch.slice(0, 60)}`)
    }
  for (const bytes of ['c0af', 'eda080', 'f4908080', 'ff', 'e28228', 'f0', 'efbbbf']) {
    const at = call.body.indexOf('DEEP')
    const body = Buffer.concat([
      Buffer.from(call.body.slice(0, at)),
      Buffer.from(bytes, 'hex'),
      Buffer.from(call.body.slice(at)),
    ])
    const response = await fetch(gateway.url, {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...call.headers },
      body: new Uint8Array(body),
    })
    await response.text()
    assert.is(response.status, bytes === 'efbbbf' ? 200 : 400, bytes)
  }
  const { hostname, port } = new URL(gateway.url)
  const head = Object.entries({ Host: 'localhost', connection: 'close', ...BASE_HEADERS, ...call.headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  for (let round = 0; round < 40; round++) {
    const chunks: string[] = []
    for (let at = 0; at < call.body.length; ) {
      const size = 1 + random(40)
      const chunk = call.body.slice(at, at + size)
      chunks.push(`${chunk.length.toString(16)}${round % 3 === 0 ? ';ext=1' : ''}\r\n${chunk}\r\n`)
      at += size
    }
    const text = await new Promise<string>((resolve, reject) => {
      let received = ''
      const socket = connectSocket(Number(port), hostname, () => {
        socket.write(`POST /mcp HTTP/1.1\r\n${head}transfer-encoding: chunked\r\n\r\n`)
        for (const chunk of chunks) socket.write(chunk)
        socket.write('0\r\n\r\n')
      })
      socket.on('data', (chunk) => {
        received += chunk
      })
      socket.on('error', reject)
      socket.on('close', () => resolve(received))
    })
    assert.match(text, /^HTTP\/1\.1 200 /)
    assert.match(text, /"ok"/)
  }
})

test('after all this the gateway works as before and has logged no failure of its own', async () => {
  assert.ok((await postModern(gateway.url, 'tools/call', { name: 'b_open' })).json.result)
  assert.equal(
    gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
})

test('mangled answers of a backend do no harm', async () => {
  const buildStream = (id: unknown) =>
    `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"ok"}]}}`
  const events = (id: unknown) =>
    `event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n\ndata: ${buildStream(id)}\n\n`
  const servers = await Promise.all(
    (['modern', 'legacy'] as const).map((era) =>
      startRawServer({
        era,
        call(request, res) {
          const asEvents = random(2) === 0
          const bytes = mangle(asEvents ? events(request.message.id) : buildStream(request.message.id))
          res.writeHead(200, { 'content-type': asEvents ? 'text/event-stream' : 'application/json' })
          const at = random(bytes.length)
          res.write(bytes.subarray(0, at))
          res.end(bytes.subarray(at))
          return undefined
        },
      }),
    ),
  )
  const own = await startGateway({
    backends: servers.map(({ url }, index) => ({ name: `s${index}`, url, timeout: '2s' })),
  })
  const session = await openSession(own.url)
  for (let round = 0; round < 600; round++) {
    const name = `s${random(2)}_t`
    const call = modern('tools/call', { name })
    const [body, headers] = random(2) === 0 ? [call.body, call.headers] : [rpc('tools/call', { name }), session]
    const response = await fetch(own.url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body })
    // A result is relayed unchanged, even if it is invalid: this only finds the end of the answer.
    const text = await response.text()
    assert.is(response.status, 200, text)
    assert.ok(text !== '')
  }
  assert.equal(
    own.lines.filter(({ level }) => level === 'error'),
    [],
  )
  await own.close()
  await Promise.all(servers.map((server) => server.close()))
})

test.run()
