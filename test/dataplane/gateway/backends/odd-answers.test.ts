/** Tests valid and invalid answers, judged by official clients: lists and calls follow the same rules. */
import type { ServerResponse } from 'node:http'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, type RawServerOptions, startRawServer } from '../../../support/servers/raw-server.ts'
import { startSseServer } from '../../../support/servers/sse-server.ts'

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function startBehind(era: 'legacy' | 'modern', before: NonNullable<RawServerOptions['before']>) {
  const server = await startRawServer({
    era,
    call: (request) => answer(request, `{"resultType":"complete",${OK_RESULT.slice(1)}`),
    before,
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  return { server, gateway }
}

type Edit = (status: number, headers: Record<string, string | string[]>, body: string) => Parameters<Edit>
/** Edits everything that the server answers. */
function sendEdited(res: ServerResponse, edit: Edit): void {
  const writeHead = res.writeHead.bind(res)
  const end = res.end.bind(res)
  let head: [number, Record<string, string | string[]>] = [200, {}]
  res.writeHead = ((status: number, headers: Record<string, string | string[]> = {}) => {
    head = [status, headers]
    return res
  }) as typeof res.writeHead
  res.end = ((body = '') => {
    const [status, headers, text] = edit(...head, String(body))
    writeHead(status, headers)
    return end(text)
  }) as typeof res.end
}

const MARK = '\ufeff'
const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
const inAnswers =
  (change: (body: string) => string): Edit =>
  (status, headers, body) => [status, headers, body.startsWith('{') && status === 200 ? change(body) : body]
const asEvents =
  (before: string): Edit =>
  (status, headers, body) =>
    status !== 200 || body === ''
      ? [status, headers, body]
      : [status, { ...headers, 'content-type': 'text/event-stream' }, `${before}data: ${body}\n\n`]
const tolerated: Readonly<Record<string, Edit>> = {
  '201 for 200': (status, headers, body) => [status === 200 ? 201 : status, headers, body],
  'a byte order mark before JSON': (status, headers, body) => [status, headers, body === '' ? '' : MARK + body],
  'an array of one': (status, headers, body) => [status, headers, body.startsWith('{') ? ` [ ${body} ] ` : body],
  'a byte order mark before events': asEvents(MARK),
  'an array of a notification and the answer': inAnswers((body) => `[${NOTE}, ${body}]`),
  'an array in an event': asEvents(`data: [${NOTE},${NOTE}]\n\n`),
  'events that hold no message': asEvents('data: keep alive\n\ndata: null\n\ndata: []\n\ndata: {}\n\ndata: {"a"\n\n'),
  'an answer to nobody before the own one': asEvents('data: {"jsonrpc":"2.0","id":"nobody","result":{"tools":[]}}\n\n'),
  'elements of an array that are no messages': inAnswers(
    (body) => `[null, "x, ]", [1, [2]], 7, {"id":[1],"result":{}}, ${body}, null]`,
  ),
  'events without an empty line at the end': (...args) => {
    const [status, headers, body] = asEvents('')(...args)
    return [status, headers, body.trimEnd()]
  },
  'error: null beside the result': inAnswers((body) => body.replace('"result"', '"error":null,"result"')),
  'members of a request': inAnswers((body) => body.replace('"result"', '"method":null,"params":null,"result"')),
  'another jsonrpc': inAnswers((body) => body.replace('"jsonrpc":"2.0"', '"jsonrpc" : "1.0"')),
  'jsonrpc as a number': inAnswers((body) => body.replace('"jsonrpc":"2.0"', '"jsonrpc":2.0')),
  'no jsonrpc': inAnswers((body) => body.replace('"jsonrpc":"2.0",', '')),
  'id: null': inAnswers((body) => body.replace(/"id":\d+/, '"id":null')),
  'Content-Encoding: utf-8': (status, headers, body) => [status, { ...headers, 'content-encoding': 'utf-8' }, body],
  'a session that declares no capability': inAnswers((body) =>
    body.includes('serverInfo') ? body.replace('{"tools":{}}', '{"prompts":null}') : body,
  ),
  'a capability that is true': inAnswers((body) => body.replace('"tools":{}', '"tools":true')),
  'null beside a list': inAnswers((body) => body.replace('"tools":[', '"nextCursor":null,"_meta":null,"tools":[')),
  'an empty session id': (status, headers, body) => [status, { ...headers, 'mcp-session-id': '' }, body],
  'a long session id': (status, headers, body) =>
    'mcp-session-id' in headers
      ? [status, { ...headers, 'mcp-session-id': `a b.${'x'.repeat(3000)}` }, body]
      : [status, headers, body],
}
for (const [what, edit] of Object.entries(tolerated))
  for (const era of ['legacy', 'modern'] as const)
    test(`${era}: ${what} is read, in lists and calls`, async () => {
      const { gateway } = await startBehind(era, (_request, res) => {
        sendEdited(res, edit)
        return false
      })
      const { client: one } = await connectV1(gateway.url)
      const { client: two } = await connect(gateway.url, 'modern')
      cleanups.push(
        () => one.close(),
        () => two.close(),
      )
      for (const client of [one, two]) {
        assert.is((await client.listTools()).tools.length, 1)
        assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
      }
    })

for (const status of [307, 308])
  test(`a redirect (${status}) within the origin is followed`, async () => {
    const { gateway, server } = await startBehind('legacy', (request, res) => {
      if (request.path === '/mcp/') return false
      res.writeHead(status, { location: '/mcp/' }).end('moved')
      return true
    })
    const { client } = await connectV1(gateway.url)
    cleanups.push(() => client.close())
    assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
    assert.is(server.calls('tools/call').length, 1)
  })

for (const status of [301, 302, 307, 308])
  test(`a GET stream follows a redirect (${status}) within the origin, and calls keep their URL`, async () => {
    const streamed: string[] = []
    const { gateway, server } = await startBehind('legacy', (request, res) => {
      if (request.method !== 'GET') return false
      if (request.path === '/mcp') res.writeHead(status, { location: '/events?of=mcp' }).end('moved')
      else {
        streamed.push(request.path)
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        const progress = (progressToken: unknown) =>
          `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1 } })}\n\n`
        res.write(progress('given by nobody') + progress(1))
        res.write(
          'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"heard"}}\n\n',
        )
      }
      return true
    })
    const session = await openSession(gateway.url)
    const call = () => post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    await call()
    const stream = await EventReader.listen(gateway.url, session)
    cleanups.push(() => stream.leave())
    await eventually('the next message on the stream', () => stream.events.some(({ message }) => message !== undefined))
    assert.equal(
      stream.events.flatMap(({ message }) => (message?.method === undefined ? [] : [message.method])),
      ['notifications/message'],
      'progress is told to who has asked for it',
    )
    assert.equal([...new Set(streamed)], ['/events?of=mcp'])
    assert.ok((await call()).json.result)
    // 307 and 308 redirect the resource for every method.
    assert.is(server.calls('tools/call').at(-1)?.path, status > 302 ? '/events?of=mcp' : '/mcp')
  })

test('a GET stream does not follow redirects to another origin or endless ones', async () => {
  for (const location of ['http://elsewhere.example/events', '/mcp']) {
    const { gateway, server } = await startBehind('legacy', (request, res) => {
      if (request.method !== 'GET') return false
      res.writeHead(302, { location }).end()
      return true
    })
    const session = await openSession(gateway.url)
    await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    const stream = await EventReader.listen(gateway.url, session)
    cleanups.push(() => stream.leave())
    await eventually('the stream is requested', () => server.seen.some(({ method }) => method === 'GET'))
    assert.ok((await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)).json.result)
    assert.ok(server.seen.filter(({ method }) => method === 'GET').length <= 2)
  }
})

test('HTTP+SSE: redirects of the stream and of messages are followed within the origin', async () => {
  const server = await startSseServer()
  const front = await startRawServer({
    era: 'legacy',
    call: () => undefined,
    before: async (request, res) => {
      const [path = '', query = ''] = request.path.split('?')
      if (!path.endsWith('/')) {
        res.writeHead(308, { location: `${path}/${query && `?${query}`}` }).end()
        return true
      }
      const target = new URL(request.path.replace(/\/(\?|$)/, '$1'), server.url)
      const { host: _, 'content-length': __, connection: ___, ...headers } = request.headers
      const answered = await fetch(target, {
        method: request.method,
        headers: headers as Record<string, string>,
        ...(request.body === '' ? {} : { body: request.body }),
      })
      res.writeHead(answered.status, { 'content-type': answered.headers.get('content-type') ?? 'text/plain' })
      res.flushHeaders()
      try {
        for await (const chunk of answered.body ?? []) res.write(chunk)
        res.end()
      } catch {
        // The server ends its streams when it closes.
      }
      return true
    },
  })
  const url = new URL(new URL(server.url).pathname, front.url).href
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url, transport: 'sse' }] })
  cleanups.push(
    () => server.close(),
    () => front.close(),
    () => gateway.close(),
  )
  const { client } = await connectV1(gateway.url)
  cleanups.push(() => client.close())
  assert.is(readText(await client.callTool({ name: 'echo', arguments: { message: 'moved' } })), 'moved')
})

test('large structuredContent that is no object reaches session clients as text only', async () => {
  const large = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => index))
  let structured = large
  const server = await startRawServer({
    era: 'modern',
    call: (request) =>
      answer(
        request,
        `{"resultType":"complete","content":[{"type":"text","text":${JSON.stringify(large)}}],"structuredContent":${structured}}`,
      ),
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => gateway.close(),
  )
  const { client: one } = await connectV1(gateway.url)
  const { client: two } = await connect(gateway.url, 'legacy')
  cleanups.push(
    () => one.close(),
    () => two.close(),
  )
  for (const client of [one, two]) {
    const result = await client.callTool({ name: 't', arguments: {} })
    assert.is(readText(result), large)
    assert.not('structuredContent' in result)
  }
  structured = `{"rows":${large}}`
  const { structuredContent } = await one.callTool({ name: 't', arguments: {} })
  assert.is(JSON.stringify(structuredContent), structured)
})

test('a list that never comes or can’t be read is reported and hides no tools of other backends', async () => {
  const { gateway } = await startBehind('legacy', (request, res) => {
    const { method } = request.message
    if (method === 'initialize') {
      res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
      const capabilities = '{"tools":{},"prompts":{},"resources":{}}'
      res.end(
        answer(
          request,
          `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"serverInfo":{"name":"x","version":"1"}}`,
        ),
      )
    } else if (method === 'resources/list') res.writeHead(500).end('out of order')
    else return method === 'prompts/list'
    return true
  })
  const { client } = await connectV1(gateway.url)
  cleanups.push(() => client.close())
  assert.is((await client.listTools()).tools.length, 1)
  assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
  const line = gateway.lines.find(({ list }) => list === 'resources/list')
  assert.match(String(line?.['reason']), /HTTP 500.*out of order/)
})

test('a null list has no entries', async () => {
  for (const era of ['legacy', 'modern'] as const) {
    const { gateway } = await startBehind(era, (request, res) => {
      if (request.message.method !== 'tools/list') return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(answer(request, '{"resultType":"complete","tools":null}'))
      return true
    })
    const { client } = await connectV1(gateway.url)
    cleanups.push(() => client.close())
    assert.equal((await client.listTools()).tools, [])
    assert.is((await gateway.status()).backends[0]?.health, 'healthy')
  }
})

test('a stream that stays open instead of an empty answer delays nobody', async () => {
  const { gateway, server } = await startBehind('legacy', ({ message }, res) => {
    if (message.method !== 'notifications/initialized') return false
    res.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n')
    return true
  })
  const { client } = await connectV1(gateway.url)
  cleanups.push(() => client.close())
  assert.is((await client.listTools()).tools.length, 1)
  assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
  assert.ok(server.calls('notifications/initialized').length >= 2)
})

test('null members of notifications and requests are removed, so that official clients accept them', async () => {
  const messages = [
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":null,"data":null,"_meta":null}}',
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1,"total":null,"message":null}}',
  ]
  const { gateway } = await startBehind('legacy', (request, res) => {
    const { message } = request
    if (message.method !== 'tools/call') return false
    const { _meta: meta } = message.params as { _meta: { progressToken: number } }
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const text of messages) res.write(`data: ${text.replace('TOKEN', String(meta.progressToken))}\n\n`)
    res.end(`data: ${answer(request, OK_RESULT)}\n\n`)
    return true
  })
  const { client } = await connectV1(gateway.url)
  const faults: Error[] = []
  const received: unknown[] = []
  client.onerror = (error) => void faults.push(error)
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void received.push(params))
  const onprogress = (progress: unknown) => void received.push(progress)
  const result = await client.callTool({ name: 't', arguments: {} }, undefined, { onprogress })
  assert.is(readText(result), 'ok')
  await eventually('both', () => received.length === 2)
  assert.equal(received, [{ level: 'info', data: null }, { progress: 1 }])
  assert.equal(faults, [])
  await client.close()
})

test('an error of the gateway’s own request is reported with the server’s message', async () => {
  const { gateway } = await startBehind('legacy', ({ message: { method, id } }, res) => {
    if (method !== 'initialize') return false
    res.writeHead(500, { 'content-type': 'application/json' })
    res.end(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"The database is away."}}`)
    return true
  })
  await eventually('the reason', async () =>
    /HTTP 500, error -32603: "The database is away."/.test(
      (await gateway.status()).backends[0]?.lastError?.message ?? '',
    ),
  )
})

test('a modern client’s null state counts as absent, at a session backend too', async () => {
  const { gateway } = await startBehind('legacy', () => false)
  const nulls = { name: 't', arguments: null, requestState: null, inputResponses: null }
  const { json } = await postModern(gateway.url, 'tools/call', nulls)
  assert.is(json.result?.content[0].text, 'ok', JSON.stringify(json))
})

const oddErrors: Readonly<Record<string, readonly [error: string, code: number, message: string]>> = {
  'a text': ['"broken"', -32603, 'broken'],
  'without a code': ['{"message":"broken"}', -32603, 'broken'],
  'with its code as text': ['{"code":"-32050","message":"broken","data":null}', -32050, 'broken'],
  'without a message': ['{"code":-32050,"message":null}', -32050, 'The backend gives no reason.'],
}
test('an error in another form becomes a JSON-RPC error', async () => {
  let error = ''
  const { gateway } = await startBehind('legacy', ({ message }, res) => {
    if (message.method !== 'tools/call') return false
    res.writeHead(200, { 'content-type': 'application/json' })
    res.end(`{"jsonrpc":"2.0","id":null,"result":null,"error":${error}}`)
    return true
  })
  const { client: one } = await connectV1(gateway.url)
  const { client: two } = await connect(gateway.url, 'modern')
  cleanups.push(
    () => one.close(),
    () => two.close(),
  )
  for (const [what, [text, code, message]] of Object.entries(oddErrors))
    for (const client of [one, two]) {
      error = text
      const refusal = await client.callTool({ name: 't', arguments: {} }).then(
        () => undefined,
        (reason: { code: number; message: string }) => reason,
      )
      assert.is(refusal?.code, code, what)
      assert.ok(refusal?.message.endsWith(message), what)
    }
})

const RPC_ERROR = '{"code":-32050,"message":"The disk is full.","data":{"left":7}}'
test('a JSON-RPC error with an HTTP error status is passed to callers unchanged, without a retry', async () => {
  let status = 200
  for (const era of ['legacy', 'modern'] as const) {
    const { gateway, server } = await startBehind(era, ({ message }, res) => {
      if (message.method !== 'tools/call') return false
      res.writeHead(status, { 'content-type': 'application/json' })
      res.end(`{"jsonrpc":"2.0","id":${status % 2 === 0 ? JSON.stringify(message.id) : 'null'},"error":${RPC_ERROR}}`)
      return true
    })
    const { client: one } = await connectV1(gateway.url)
    const { client: two } = await connect(gateway.url, 'modern')
    const { client: three } = await connect(gateway.url, 'legacy')
    cleanups.push(...[one, two, three].map((client) => () => client.close()))
    const session = await openSession(gateway.url)
    for (status of [400, 403, 409, 422, 429, 500, 502, 503]) {
      const before = server.calls('tools/call').length
      for (const client of [one, two, three]) {
        const refusal = await client.callTool({ name: 't', arguments: {} }).then(
          () => undefined,
          (reason: { code: number; message: string; data: { left: number } }) => reason,
        )
        assert.is(refusal?.code, -32050, `${era} ${status}`)
        assert.match(refusal?.message ?? '', 'The disk is full.')
        assert.is(refusal?.data.left, 7)
      }
      assert.is(server.calls('tools/call').length, before + 3, `${era} ${status}`)
      const { text } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, 'a'), session)
      assert.ok(text.includes(`"error":${RPC_ERROR}`), text)
      assert.match(text, '"id":"a"')
    }
  }
})

const refused: Readonly<Record<string, readonly [edit: Edit, reported: RegExp]>> = {
  'no Content-Type': [(status, _headers, body) => [status, {}, body], /no Content-Type/],
  'a doubled one': [
    (status, headers, body) => [status, { ...headers, 'content-type': ['application/json', 'application/json'] }, body],
    /Content-Type/,
  ],
  'a foreign one': [
    (status, headers, body) => [status, { ...headers, 'content-type': 'text/plain' }, body],
    /text\/plain/,
  ],
}
for (const [what, [edit, reported]] of Object.entries(refused))
  test(`${what} is refused in lists and calls alike`, async () => {
    let isOdd = true
    const { gateway } = await startBehind('legacy', (_request, res) => {
      if (isOdd) sendEdited(res, edit)
      return false
    })
    await eventually('the reason', async () =>
      reported.test((await gateway.status()).backends[0]?.lastError?.message ?? ''),
    )
    isOdd = false
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    const call = () => post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    assert.ok((await call()).json.result)
    isOdd = true
    assert.ok((await call()).json.error)
  })

const causes: Readonly<Record<string, readonly [edit: Edit, reported: RegExp, clientMessage: RegExp]>> = {
  '404': [
    () => [404, { 'content-type': 'text/plain' }, 'nothing here'],
    /HTTP 404.*text\/plain.*nothing here/,
    /HTTP 404/,
  ],
  '502': [() => [502, { 'content-type': 'text/html' }, '<h1>Bad Gateway'], /HTTP 502.*Bad Gateway/, /HTTP 502/],
  'a login page': [() => [200, { 'content-type': 'text/html' }, '<html>Log in'], /text\/html.*Log in/, /web page/],
  'a redirect elsewhere': [
    () => [302, { location: 'https://login.example/x?secret=1' }, ''],
    /HTTP 302, Location https:\/\/login\.example\/x$/,
    /redirects elsewhere/,
  ],
}
for (const [what, [edit, reported, clientMessage]] of Object.entries(causes))
  test(`${what} is reported as such, on /status and to callers`, async () => {
    let isOdd = false
    const { gateway } = await startBehind('legacy', (_request, res) => {
      if (isOdd) sendEdited(res, edit)
      return false
    })
    await eventually('its tools', async () => (await gateway.status()).backends[0]?.tools === 1)
    const session = await openSession(gateway.url)
    const call = () => post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }), session)
    await call()
    isOdd = true
    assert.match((await call()).json.error?.message as string, clientMessage)
    assert.match((await gateway.status()).backends[0]?.lastError?.message ?? '', reported)
  })

test.run()
