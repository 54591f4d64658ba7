import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, openSession, parseAnswer, post, postModern, rpc } from '../../../support/gateway/post.ts'
import {
  answer,
  OK_RESULT,
  type RawRequest,
  type RawServer,
  startRawServer,
  tool,
} from '../../../support/servers/raw-server.ts'

/** The backends' behaviour by tool; by default a tool succeeds. */
const behaviours: Record<string, (request: RawRequest, res: ServerResponse) => string | undefined> = {}
const respond = (request: RawRequest, res: ServerResponse) => {
  const behave = behaviours[String(request.message.params?.['name'])]
  return behave === undefined ? answer(request, OK_RESULT) : behave(request, res)
}
const names = ['t', 'exact', 'flow', 'events', 'ask', 'drip', 'hang', 'meta', 'error', 'big-events', 'input', 'linger']

let newer: RawServer
let older: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  const tools = names.map((name) => tool(name))
  newer = await startRawServer({ era: 'modern', tools, call: respond })
  older = await startRawServer({ era: 'legacy', tools, call: respond })
  gateway = await startGateway({
    backends: [
      { name: 'new', url: newer.url, headers: { 'X-Api-Key': 'k1' } },
      { name: 'old', url: older.url },
    ],
  })
  await post(gateway.url, rpc('tools/list'), await openSession(gateway.url))
})

test.after(async () => {
  await gateway.close()
  await Promise.all([newer.close(), older.close()])
})

test.before.each(() => {
  for (const name of Object.keys(behaviours)) delete behaviours[name]
})

const ODD =
  '{ "content" : [ {"type":"hologram","big":12345678901234567890,"f":1.0,"e":1E+2,"u":"\\u00e9é\\/"} ], "structuredContent":[1,2],"x-unknown":{"a":null} , "_meta":{"k":"v"} }'

test('modern client, modern backend: the answer is byte for byte the backend’s', async () => {
  let sent = ''
  behaviours['exact'] = (request) =>
    (sent = ` {"result":${ODD},"extra":1,"id":${request.message.id},"jsonrpc":"2.0"}\n`)
  assert.is((await postModern(gateway.url, 'tools/call', { name: 'new_exact' })).text, sent)
})

test('legacy client, legacy backend: the answer is byte for byte the backend’s', async () => {
  const session = await openSession(gateway.url)
  let sent = ''
  behaviours['exact'] = (request) =>
    (sent = `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"result":${ODD}}`)
  assert.is((await post(gateway.url, rpc('tools/call', { name: 'old_exact' }, 'ü/"'), session)).text, sent)
})

test('modern client, legacy backend: the result gets its type and the client’s id, and is otherwise unchanged', async () => {
  behaviours['exact'] = (request) => `{"result":${ODD},"jsonrpc":"2.0","id":${request.message.id}}`
  const request = modern('tools/call', { name: 'old_exact' }, 'my id')
  const { text } = await post(gateway.url, request.body, request.headers)
  assert.is(text, `{"result":{${ODD.slice(1).replace(' ', ' "resultType":"complete",')},"jsonrpc":"2.0","id":"my id"}`)
})

test('legacy client, modern backend: members of the modern era are removed', async () => {
  const session = await openSession(gateway.url)
  behaviours['exact'] = (request) =>
    answer(request, '{"resultType":"complete","content":[{"n":12345678901234567890}],"ttlMs":5,"cacheScope":"public"}')
  const { text } = await post(gateway.url, rpc('tools/call', { name: 'new_exact' }, 9), session)
  assert.is(text, '{"jsonrpc":"2.0","id":9,"result":{"content":[{"n":12345678901234567890}]}}')
})

test('the call is byte for byte the client’s except for the name', async () => {
  const args = '{ "n":12345678901234567890,"f":1.0 , "s":"\\u00e9" }'
  const { headers } = modern('tools/call', { name: 'new_t' })
  const meta = JSON.stringify(JSON.parse(modern('tools/call').body).params._meta)
  const body = ` {"id":1.0,"method":"tools/call","params":{"arguments":${args},"name":"new_t","_meta":${meta},"more":[1]},"jsonrpc":"2.0"}`
  newer.seen.length = 0
  await post(gateway.url, body, headers)
  assert.is(newer.seen[0]?.body, body.replace('new_t', 't'))
})

test('each call is exactly one request to the backend, whatever eras meet', async () => {
  const session = await openSession(gateway.url)
  // The first call in a session opens the session with the backend.
  for (const name of ['new_t', 'old_t']) await post(gateway.url, rpc('tools/call', { name }), session)
  await postModern(gateway.url, 'tools/call', { name: 'old_t' })
  for (const server of [newer, older]) server.seen.length = 0
  for (const name of ['new_t', 'old_t']) {
    await post(gateway.url, rpc('tools/call', { name }), session)
    await postModern(gateway.url, 'tools/call', { name })
  }
  for (const server of [newer, older]) {
    assert.equal(
      server.seen.map(({ message }) => message.method),
      ['tools/call', 'tools/call'],
    )
  }
})

const INTIMATE = {
  authorization: 'Bearer client-token',
  cookie: 'a=b',
  'proxy-authorization': 'Basic eDp5',
  'x-forwarded-for': '10.0.0.1',
  'last-event-id': '5',
  te: 'trailers',
  'x-custom': 'x',
  'mcp-param-foreign': 'f',
}

test('none of the client’s headers reaches a backend', async () => {
  const session = await openSession(gateway.url)
  newer.seen.length = 0
  older.seen.length = 0
  await postModern(gateway.url, 'tools/call', { name: 'new_t' }, INTIMATE)
  await post(gateway.url, rpc('tools/call', { name: 'old_t' }), { ...session, ...INTIMATE })
  const request = newer.calls('tools/call')[0] as RawRequest
  assert.equal(Object.keys(request.headers).sort(), [
    'accept',
    'accept-encoding',
    'connection',
    'content-length',
    'content-type',
    'host',
    'mcp-method',
    'mcp-name',
    'mcp-protocol-version',
    'x-api-key',
    'x-request-id',
  ])
  assert.is(request.headers['mcp-name'], 't')
  assert.is(request.headers['x-api-key'], 'k1')
  for (const { headers } of older.seen) {
    assert.is.not(headers['mcp-session-id'], session['mcp-session-id'])
    for (const name of Object.keys(INTIMATE)) assert.is(headers[name], undefined, name)
  }
})

test('the modern envelope goes to modern backends alone', async () => {
  const session = await openSession(gateway.url)
  newer.seen.length = 0
  older.seen.length = 0
  const params = {
    name: 'old_t',
    _meta: { ...JSON.parse(modern('x').body).params._meta, progressToken: 'p', 'a/b': 1 },
  }
  await postModern(gateway.url, 'tools/call', params)
  assert.equal(older.calls('tools/call')[0]?.message.params?.['_meta'], { progressToken: 'p', 'a/b': 1 })
  await post(gateway.url, rpc('tools/call', { name: 'new_t', _meta: { progressToken: 'p' } }), session)
  assert.equal(newer.calls('tools/call')[0]?.message.params?.['_meta'], {
    progressToken: 'p',
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/logLevel': 'info',
  })
})

for (const [era, name] of [
  ['modern', 'new_flow'],
  ['modern', 'old_flow'],
  ['legacy', 'new_flow'],
  ['legacy', 'old_flow'],
] as const)
  test(`${era} client, ${name}: a large answer flows while it is still being written`, async () => {
    let finish = () => {}
    behaviours['flow'] = (request, res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      res.write(`{"jsonrpc":"2.0","id":${request.message.id},"result":{"content":[{"type":"text","text":"`)
      res.write('x'.repeat(200_000))
      finish = () => void res.end('"}]}}')
      return undefined
    }
    const request = modern('tools/call', { name })
    const headers = era === 'modern' ? request.headers : await openSession(gateway.url)
    const body = era === 'modern' ? request.body : rpc('tools/call', { name })
    const response = await fetch(gateway.url, { method: 'POST', headers: { ...BASE_HEADERS, ...headers }, body })
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    while (text.length < 200_000) text += Buffer.from((await reader.read()).value ?? []).toString()
    finish()
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString()
    const { id, result } = JSON.parse(text)
    assert.is(id, 1)
    assert.is(result.content[0].text.length, 200_000)
    assert.is(result.resultType, era === 'modern' && name === 'old_flow' ? 'complete' : undefined)
  })

for (const form of ['application/json', 'text/event-stream'])
  test(`legacy client, modern backend: members of the modern era are removed from a large answer too (${form})`, async () => {
    const text = 'é'.repeat(100_000)
    behaviours['exact'] = (request, res) => {
      const result = `{"resultType":"complete","text":"${text}","ttlMs":5,"x":${ODD},"cacheScope":"private"}`
      res.writeHead(200, { 'content-type': form })
      res.end(form === 'application/json' ? answer(request, result) : event(answer(request, result)))
      return undefined
    }
    const { text: received } = await post(
      gateway.url,
      rpc('tools/call', { name: 'new_exact' }),
      await openSession(gateway.url),
    )
    const left = `{"jsonrpc":"2.0","id":1,"result":{"text":"${text}","x":${ODD}}}`
    assert.ok(received.replace(/^event: message\ndata: /, '').trim() === left)
  })

test('a large request for input, which a legacy client can’t be asked, is an error', async () => {
  behaviours['input'] = (request) =>
    answer(request, `{"resultType":"input_required","inputRequests":{},"fill":"${'x'.repeat(100_000)}"}`)
  const { json } = await post(gateway.url, rpc('tools/call', { name: 'new_input' }), await openSession(gateway.url))
  assert.is(json.error.code, -32603)
  assert.match(json.error.message, /asks for something/)
})

test('a huge answer is not collected in memory', async () => {
  const MB = 1024 * 1024
  let written = 0
  behaviours['flow'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'application/json' })
    res.write(`{"jsonrpc":"2.0","id":${request.message.id},"result":{"text":"`)
    const writeMore = () => {
      while (written < 200) {
        written++
        if (!res.write('y'.repeat(MB))) {
          res.once('drain', writeMore)
          return
        }
      }
      res.end('"}}')
    }
    writeMore()
    return undefined
  }
  const request = modern('tools/call', { name: 'new_flow' })
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...request.headers },
    body: request.body,
  })
  // The client does not read, so full buffers must block the backend.
  let before = -1
  await eventually('the backend to be held up', async () => {
    const still = written === before
    before = written
    await new Promise((resolve) => setTimeout(resolve, 100))
    return still
  })
  assert.ok(written < 100, `the gateway took ${written} MB that nobody reads`)
  let size = 0
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) size += chunk.length
  assert.ok(size > 200 * MB)
})

const event = (data: string) => `event: message\nid: e1\ndata: ${data}\n\n`
const progress = (step: number) =>
  `{"method":"notifications/progress","params":{"progressToken":"p","progress":${step}},"jsonrpc":"2.0"}`
const log = (level: string) =>
  `{"method":"notifications/message","params":{"level":"${level}","data":"x"},"jsonrpc":"2.0"}`

test('notifications come first, as events; the answer is the last event', async () => {
  behaviours['events'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(`id: 0\ndata: \n\n: comment\n\n${event(progress(1))}`)
    res.end(`${event(log('info'))}${event(answer(request, OK_RESULT))}`)
    return undefined
  }
  const session = await openSession(gateway.url)
  for (const name of ['new_events', 'old_events']) {
    const params = { name, _meta: { progressToken: 'p' } }
    const { headers, text } = await post(gateway.url, rpc('tools/call', params, 3), session)
    assert.is(headers.get('content-type'), 'text/event-stream')
    const data = text.match(/^data: .+$/gm)?.map((line) => JSON.parse(line.slice(6)))
    assert.equal(
      data?.map(({ method, id }) => method ?? id),
      ['notifications/progress', 'notifications/message', 3],
    )
    assert.not.match(text, /^id: 0$/m, 'ids are the gateway’s own')
  }
})

test('progress is relayed under the call’s own token', async () => {
  behaviours['events'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const { progressToken: own } = (request.message.params?.['_meta'] ?? {}) as { progressToken?: unknown }
    for (const [step, progressToken] of [own, String(own), 'another', 8, null, {}].entries())
      res.write(
        event(
          JSON.stringify({
            jsonrpc: '2.0',
            method: 'notifications/progress',
            params: { progressToken, progress: step },
          }),
        ),
      )
    res.end(event(answer(request, OK_RESULT)))
    return undefined
  }
  const envelope = JSON.parse(modern('x').body).params._meta
  const session = await openSession(gateway.url)
  for (const name of ['new_events', 'old_events'])
    for (const token of ['p', 7, undefined]) {
      const _meta = token === undefined ? {} : { progressToken: token }
      for (const { text } of [
        await post(gateway.url, rpc('tools/call', { name, _meta }), session),
        await postModern(gateway.url, 'tools/call', { name, _meta: { ...envelope, ..._meta } }),
      ]) {
        const steps = [...text.matchAll(/"progress":(\d)/g)].map(([, step]) => Number(step))
        assert.equal(steps, token === undefined ? [] : [0, 1], `${name} ${token}`)
      }
    }
})

test('a modern client gets log messages from its requested level on', async () => {
  behaviours['events'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(`${event(log('debug'))}${event(log('error'))}${event(answer(request, OK_RESULT))}`)
    return undefined
  }
  const { _meta } = JSON.parse(modern('x').body).params
  const levels = async (logLevel?: string) => {
    const meta = logLevel === undefined ? _meta : { ..._meta, 'io.modelcontextprotocol/logLevel': logLevel }
    const { text } = await postModern(gateway.url, 'tools/call', { name: 'old_events', _meta: meta })
    return [...text.matchAll(/"level":"(\w+)"/g)].map(([, level]) => level)
  }
  assert.equal(await levels(), [])
  assert.equal(await levels('warning'), ['error'])
  assert.equal(await levels('debug'), ['debug', 'error'])
})

test('events with nothing but the answer become plain JSON', async () => {
  behaviours['events'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    res.end(`data: {"jsonrpc":"2.0",\ndata: "id":${request.message.id},"result":${OK_RESULT}}\n\n`)
    return undefined
  }
  const { headers, json } = await postModern(gateway.url, 'tools/call', { name: 'new_events' })
  assert.is(headers.get('content-type'), 'application/json')
  assert.equal(json, { jsonrpc: '2.0', id: 1, result: JSON.parse(OK_RESULT) })
})

test('a large answer after notifications flows as one event', async () => {
  behaviours['big-events'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event(progress(1)))
    res.end(event(answer(request, `{"text":"${'z'.repeat(300_000)}"}`)))
    return undefined
  }
  for (const name of ['new_big-events', 'old_big-events']) {
    const _meta = { ...JSON.parse(modern('x').body).params._meta, progressToken: 'p' }
    const { text } = await postModern(gateway.url, 'tools/call', { name, _meta })
    const data = text.match(/^data: .*$/gm) ?? []
    assert.is(data.length, 2)
    assert.is(JSON.parse(String(data[1]).slice(6)).result.text.length, 300_000)
  }
})

test('a legacy backend that asks gets an error', async () => {
  behaviours['ask'] = (_, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event('{"method":"sampling/createMessage","params":{},"jsonrpc":"2.0","id":"q1"}'))
    return undefined
  }
  older.seen.length = 0
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'old_ask' })
  assert.is(json.error.code, -32021)
  const replies = () => older.seen.filter(({ message }) => message.id === 'q1')
  await eventually('the answer', () => replies().length > 0)
  const [reply] = replies()
  assert.is(reply?.message.error?.code, -32601)
  assert.ok(reply?.headers['mcp-session-id'])
})

test('a JSON-RPC error of a backend is relayed as it is', async () => {
  behaviours['error'] = (request) =>
    `{"jsonrpc":"2.0","id":${request.message.id},"error":{"code":-32050,"message":"no","data":{"n":1.0}}}`
  const session = await openSession(gateway.url)
  for (const name of ['new_error', 'old_error']) {
    const expected = '"error":{"code":-32050,"message":"no","data":{"n":1.0}}'
    assert.ok((await postModern(gateway.url, 'tools/call', { name })).text.includes(expected))
    assert.ok((await post(gateway.url, rpc('tools/call', { name }), session)).text.includes(expected))
  }
})

test('a JSON-RPC error under another status than 200 is relayed too', async () => {
  behaviours['error'] = (request, res) => {
    res.writeHead(400, { 'content-type': 'application/json' })
    res.end(
      `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"error":{"code":-32602,"message":"bad arguments"}}`,
    )
    return undefined
  }
  const session = await openSession(gateway.url)
  const newAnswer = await postModern(gateway.url, 'tools/call', { name: 'new_error' })
  assert.is(newAnswer.status, 400)
  assert.equal(newAnswer.json, { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'bad arguments' } })
  const oldAnswer = await post(gateway.url, rpc('tools/call', { name: 'old_error' }, 'x'), session)
  assert.is(oldAnswer.status, 200)
  assert.is(oldAnswer.json.error.message, 'bad arguments')
})

test('a request for input reaches a modern client and is an error for a legacy one', async () => {
  const asks = '{"resultType":"input_required","requestState":"s"}'
  behaviours['input'] = (request) => answer(request, asks)
  const session = await openSession(gateway.url)
  assert.equal((await postModern(gateway.url, 'tools/call', { name: 'new_input' })).json.result, JSON.parse(asks))
  const { json } = await post(gateway.url, rpc('tools/call', { name: 'new_input' }), session)
  assert.is(json.error.code, -32603)
  assert.match(json.error.message, /input_required/)
})

test('a modern client that disconnects cancels its call', async () => {
  for (const [name, server] of [
    ['new_hang', newer],
    ['old_hang', older],
  ] as const) {
    let closed = false
    behaviours['hang'] = (_request, res) => {
      res.on('close', () => {
        closed = true
      })
      return undefined
    }
    server.seen.length = 0
    const request = modern('tools/call', { name })
    const abort = new AbortController()
    const gone = fetch(gateway.url, {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...request.headers },
      body: request.body,
      signal: abort.signal,
    }).catch(() => {})
    await eventually('the call to arrive', () => server.calls('tools/call').length === 1)
    abort.abort()
    await gone
    await eventually('the backend’s request to be given up', () => closed)
    if (server === newer) continue
    await eventually('the legacy backend to be notified', () => server.calls('notifications/cancelled').length === 1)
    const sent = server.calls('tools/call')[0]?.message.id
    assert.is(server.calls('notifications/cancelled')[0]?.message.params?.['requestId'], sent)
  }
})

test('a legacy client cancels by a notification', async () => {
  behaviours['hang'] = () => undefined
  const session = await openSession(gateway.url)
  older.seen.length = 0
  const call = post(gateway.url, rpc('tools/call', { name: 'old_hang' }, 'c1'), session)
  await eventually('the call to arrive', () => older.calls('tools/call').length === 1)
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c1' } }
  assert.is((await post(gateway.url, JSON.stringify(cancelled), session)).status, 202)
  // The client expects no answer; its request ends without one.
  assert.is((await call).text, '')
  await eventually('the backend to be notified', () => older.calls('notifications/cancelled').length === 1)
  assert.is(older.calls('notifications/cancelled')[0]?.message.params?.['requestId'], 'c1')
})

test('another session can’t cancel a call', async () => {
  let finish = () => {}
  behaviours['hang'] = (request, res) => {
    finish = () => void res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, OK_RESULT))
    return undefined
  }
  const [mine, other] = [await openSession(gateway.url), await openSession(gateway.url)]
  older.seen.length = 0
  const call = post(gateway.url, rpc('tools/call', { name: 'old_hang' }, 'c1'), mine)
  await eventually('the call to arrive', () => older.calls('tools/call').length === 1)
  await post(gateway.url, '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1"}}', other)
  finish()
  assert.equal((await call).json.result, JSON.parse(OK_RESULT))
})

test('a stream that a backend leaves open after the answer is closed', async () => {
  let closed = false
  behaviours['linger'] = (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event(answer(request, OK_RESULT)))
    res.on('close', () => {
      closed = true
    })
    return undefined
  }
  assert.ok((await postModern(gateway.url, 'tools/call', { name: 'new_linger' })).json.result)
  await eventually('the stream to be closed', () => closed)
})

test('a stream left open by a call that was repeated after a lost session is closed too', async () => {
  const refusals: (() => void)[] = []
  let closed = 0
  behaviours['linger'] = (request, res) => {
    if (refusals.length < 2) {
      refusals.push(() => {
        older.forget(request)
        res.writeHead(404).end()
      })
      return undefined
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event(answer(request, OK_RESULT)))
    res.on('close', () => {
      closed++
    })
    return undefined
  }
  const calls = [1, 2].map(() => postModern(gateway.url, 'tools/call', { name: 'old_linger' }))
  await eventually('both to arrive', () => refusals.length === 2)
  // The first call opens another session, which the second then uses.
  refusals[0]?.()
  await Promise.race(calls)
  refusals[1]?.()
  for (const { json } of await Promise.all(calls)) assert.ok(json.result)
  await eventually('both streams to be closed', () => closed === 2)
})

test('a JSON answer has a content-length', async () => {
  const { headers } = await postModern(gateway.url, 'tools/call', { name: 'new_t' })
  assert.ok(Number(headers.get('content-length')) > 0)
  assert.is(headers.get('x-api-key'), null)
})

test('the admin listener answers probes', async () => {
  for (const path of ['/healthz', '/readyz', '/version', '/status'])
    assert.is((await parseAnswer(await fetch(gateway.adminUrl + path))).status, 200, path)
})

test.run()
