import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import { type RpcResult, readQuestion } from '../../../support/gateway/rpc-message.ts'
import {
  type AskingCall,
  type AskingServer,
  type AskingServerOptions,
  startAskingServer,
} from '../../../support/servers/asking-server.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'
import { type ReferenceServer, startReference } from '../../../support/servers/reference.ts'

/** Tests questions of legacy backends to modern clients; the other combinations are in conformance.test.ts. */

const VERSION = 'io.modelcontextprotocol/protocolVersion'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const canElicit = { [VERSION]: '2026-07-28', [CAPABILITIES]: { elicitation: {} } }
const TOOL = 'old_test_input_required_result_elicitation'

let backend: ReferenceServer
let gateway: GatewayUnderTest

test.before(async () => {
  backend = await startReference('sessions')
  gateway = await startGateway({ backends: [{ name: 'old', url: backend.url }] })
})

test.after(async () => {
  await gateway.close()
  await backend.close()
})

const call = (params: object = {}, name = TOOL) =>
  postModern(gateway.url, 'tools/call', { name, arguments: {}, _meta: canElicit, ...params })

/** Returns an answer, whether it is JSON or the last event of a stream. */
const readResult = ({ json, text }: RpcAnswer): RpcResult =>
  (json ?? JSON.parse(text.slice(text.lastIndexOf('data: ') + 6))).result

async function startQuestion(): Promise<{ key: string; state: string }> {
  const result = readResult(await call())
  assert.is(result.resultType, 'input_required')
  const [key, request] = readQuestion(result)
  assert.is(request.method, 'elicitation/create')
  assert.is(request.params.message, 'What is your name?')
  return { key, state: result.requestState }
}

const answerTo = (key: string) => ({ [key]: { action: 'accept', content: { name: 'Ada' } } })

test('a legacy backend’s question reaches a modern client, and its answer the waiting call', async () => {
  const { key, state } = await startQuestion()
  const result = readResult(await call({ inputResponses: answerTo(key), requestState: state }))
  assert.is(result.resultType, 'complete')
  assert.equal(result.content, [{ type: 'text', text: 'Hello, Ada!' }])
})

test('two concurrent calls are asked and answered separately', async () => {
  const [one, two] = await Promise.all([startQuestion(), startQuestion()])
  assert.is.not(one.state, two.state)
  const answer = ({ key, state }: { key: string; state: string }, name: string) =>
    call({ inputResponses: { [key]: { action: 'accept', content: { name } } }, requestState: state })
  const results = await Promise.all([answer(two, 'Two'), answer(one, 'One')])
  assert.equal(
    results.map((result) => readResult(result).content[0].text),
    ['Hello, Two!', 'Hello, One!'],
  )
})

test('a retry without the answer is asked again', async () => {
  const { key, state } = await startQuestion()
  const again = readResult(await call({ inputResponses: {}, requestState: state }))
  assert.is(again.resultType, 'input_required')
  assert.equal(Object.keys(again.inputRequests), [key])
  const result = readResult(await call({ inputResponses: answerTo(key), requestState: again.requestState }))
  assert.is(result.content[0].text, 'Hello, Ada!')
})

test('if an answer is no object, the question is asked again', async () => {
  const { key, state } = await startQuestion()
  let requestState = state
  for (const wrong of [7, null, 'x', [], true]) {
    const again = readResult(await call({ inputResponses: { [key]: wrong }, requestState }))
    assert.is(again.resultType, 'input_required')
    assert.equal(Object.keys(again.inputRequests), [key])
    requestState = again.requestState
  }
  const result = readResult(await call({ inputResponses: answerTo(key), requestState }))
  assert.is(result.content[0].text, 'Hello, Ada!')
})

test('an altered, used or foreign state continues no call', async () => {
  const { key, state } = await startQuestion()
  const inputResponses = answerTo(key)
  const tampered = `${state.slice(0, 20)}${state[20] === 'A' ? 'B' : 'A'}${state.slice(21)}`
  for (const [params, name] of [
    [{ inputResponses, requestState: tampered }, TOOL],
    [{ inputResponses, requestState: 'x' }, TOOL],
    [{ inputResponses, requestState: state }, 'old_test_simple_text'],
  ] as const)
    assert.is((await call(params, name)).json.error.code, -32602)
  assert.is(readResult(await call({ inputResponses, requestState: state })).content[0].text, 'Hello, Ada!')
  assert.is((await call({ inputResponses, requestState: state })).json.error.code, -32602)
})

test('a client that has not declared it is not asked', async () => {
  const { status, text } = await postModern(gateway.url, 'tools/call', { name: TOOL, arguments: {} })
  assert.is(status, 200)
  assert.not.match(text, /input_required/)
  assert.match((await post(gateway.url, '{}')).text, /jsonrpc/)
})

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Starts a hand-written backend and a gateway in front of it. */
async function startInFront(options: AskingServerOptions): Promise<{ url: string; server: AskingServer }> {
  const server = await startAskingServer(options)
  const front = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => front.close(),
  )
  return { url: front.url, server }
}

const meta = (capabilities: object, more: object = {}) => ({
  [VERSION]: '2026-07-28',
  [CAPABILITIES]: capabilities,
  ...more,
})

const callBy = (url: string, capabilities: object, params: object = {}) =>
  postModern(url, 'tools/call', { name: 'b_t', arguments: {}, _meta: meta(capabilities), ...params })

for (const [what, options, capabilities, requiredCapabilities] of [
  ['elicitation', {}, {}, { elicitation: {} }],
  ['elicitation by form', {}, { elicitation: { url: {} } }, { elicitation: {} }],
  [
    'elicitation by URL',
    { params: { mode: 'url', url: 'https://x.example' } },
    { elicitation: {} },
    { elicitation: { url: {} } },
  ],
  ['sampling', { method: 'sampling/createMessage' }, { elicitation: {} }, { sampling: {} }],
  ['roots', { method: 'roots/list' }, {}, { roots: {} }],
] as const)
  test(`${what} is asked of a client that has not declared it: the backend gets -32601, the client -32021`, async () => {
    const fail = (call: AskingCall) =>
      call.finish({ content: [{ type: 'text', text: 'I had to know.' }], isError: true })
    const { url, server } = await startInFront({ ...options, onAnswer: fail })
    const { status, json } = await callBy(url, capabilities)
    await eventually('the answer to the question', () => server.asking[0]?.answers.length === 1)
    assert.is(server.asking[0]?.answers[0]?.error.code, -32601)
    assert.is(status, 400)
    assert.is(json.error.code, -32021)
    assert.equal(json.error.data, { requiredCapabilities })
  })

for (const [what, then] of [
  ['would do without the answer', (call: AskingCall) => call.finish({ content: [{ type: 'text', text: 'ok' }] })],
  ['waits for ever', () => {}],
  ['asks again', (call: AskingCall) => call.say({ id: 'again', method: 'roots/list' })],
] as const)
  test(`a call whose client can’t be asked ends, also for a backend that ${what}`, async () => {
    const { url, server } = await startInFront({ onAnswer: then })
    const { status, json } = await callBy(url, {})
    assert.is(status, 400)
    assert.is(json.error.code, -32021)
    assert.equal(json.error.data, { requiredCapabilities: { elicitation: {} } })
    await eventually('the cancellation', () => server.calls('notifications/cancelled').length === 1)
    const [cancelled] = server.calls('notifications/cancelled')
    assert.is(cancelled?.message.params?.['requestId'], server.asking[0]?.request.message.id)
    await eventually('the end of the exchange', () => server.asking[0]?.isClosed === true)
  })

test('a second question that can’t be asked ends the call when the client returns', async () => {
  const { url, server } = await startInFront({})
  const first = callBy(url, { elicitation: {} })
  await eventually('the call', () => server.asking.length === 1)
  server.asking[0]?.say({ id: 'more', method: 'roots/list' })
  const { requestState, inputRequests } = (await first).json.result
  // The second question follows the first at once, and the client hears of it only after its retry.
  const isRefused = () => (server.asking[0]?.answers.length ?? 0) > 0
  await eventually('the second question to be refused', isRefused, 200).catch(() => {})
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'decline' }]))
  const { json } = await callBy(url, { elicitation: {} }, { requestState, inputResponses })
  assert.is(json.error.code, -32021)
  assert.equal(json.error.data, { requiredCapabilities: { roots: {} } })
})

test('a waiting call continues only with equal arguments, however they are written', async () => {
  const { url, server } = await startInFront({
    onAnswer: (call) => call.finish({ content: [{ type: 'text', text: 'ok' }] }),
  })
  const args = { to: 'Ada', amount: 10, more: { a: [1, 2], b: 'x' } }
  const { requestState, inputRequests } = (await callBy(url, { elicitation: {} }, { arguments: args })).json.result
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'accept' }]))
  const retry = (args: object | undefined) =>
    callBy(url, { elicitation: {} }, { arguments: args, requestState, inputResponses })
  for (const others of [{ ...args, amount: 10_000 }, { ...args, extra: 1 }, { to: 'Ada' }, {}, undefined]) {
    const { status, json } = await retry(others)
    assert.is(status, 400)
    assert.is(json.error.code, -32602)
    assert.match(json.error.message, /other arguments/)
  }
  assert.is(server.asking[0]?.answers.length, 0)
  const { json } = await retry({ more: { b: 'x', a: [1, 2] }, amount: 10, to: 'Ada' })
  assert.is(json.result.content[0].text, 'ok')
  assert.is(server.calls('tools/call').length, 1)
})

test('a large answer is not buffered while its client is disconnected', async () => {
  const text = 'x'.repeat(32 * 1024 * 1024)
  const { url, server } = await startInFront({})
  const { json } = await callBy(url, { elicitation: {} })
  const [call] = server.asking as [AskingCall]
  // The backend finishes without an answer to its question.
  call.finish({ content: [{ type: 'text', text }] })
  const { requestState, inputRequests } = json.result
  const [key] = Object.keys(inputRequests)
  const retry = { requestState, inputResponses: { [key as string]: { action: 'decline' } } }
  for (let time = 0; time < 20; time++) await callBy(url, {}, { name: 'unknown' })
  assert.ok(call.unread > text.length / 2, `${call.unread} bytes are still the backend’s`)
  const { result } = JSON.parse((await callBy(url, { elicitation: {} }, retry)).text)
  assert.is(result.resultType, 'complete')
  assert.is(result.content[0].text.length, text.length)
})

test('waiting calls are limited to the backend’s connections', async () => {
  const { url, server } = await startInFront({})
  const answers = await Promise.all(Array.from({ length: 258 }, () => callBy(url, { elicitation: {} })))
  const refused = answers.filter(({ status }) => status === 503)
  assert.is(refused.length, 2)
  assert.match(refused[0]?.json.error.message ?? '', /Too many calls wait/)
  assert.is(answers.filter(({ json }) => json.result?.resultType === 'input_required').length, 256)
  await eventually('the backend to be notified', () => server.calls('notifications/cancelled').length === 2)
})

test('questions and answers pass unchanged', async () => {
  const params = '{ "message":"\\u00e9", "requestedSchema":{"type":"object","default":12345678901234567890, "x":1.0} }'
  const response = '{"action":"accept", "content":{"n":98765432109876543210,"f":2.50} }'
  let answered = ''
  const server = await startRawServer({
    era: 'legacy',
    call(request, res) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":${params}}\n\n`)
      finish = () => void res.end(`data: ${answer(request, OK_RESULT)}\n\n`)
      return undefined
    },
    before({ message, body }, res) {
      if (message.id !== 'q') return false
      answered = body
      res.writeHead(202).end()
      finish()
      return true
    },
  })
  let finish = () => {}
  const front = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => front.close(),
  )
  const { text, json } = await callBy(front.url, { elicitation: {} })
  assert.ok(text.includes(`{"method":"elicitation/create","params":${params}}`), text)
  const { requestState, inputRequests } = json.result
  const [key] = Object.keys(inputRequests)
  const { body, headers } = modern('tools/call', { name: 'b_t', _meta: meta({ elicitation: {} }), requestState })
  const retry = body.replace('"requestState"', `"inputResponses":{"${key}":${response}},"requestState"`)
  assert.is((await post(front.url, retry, headers)).status, 200)
  assert.ok(answered.includes(`"result":${response}}`), answered)

  const capabilities = { elicitation: {} }
  const opened = await post(
    front.url,
    rpc('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: {} }),
  )
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id') as string }
  const called = await fetch(front.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', { name: 'b_t', arguments: {} }),
  })
  let received = ''
  for await (const part of (called.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
    received += part
    const [, id] = /"id":("portico-[^"]*"),"method":"elicitation\/create"/.exec(received) ?? []
    if (id === undefined || received.includes('"ok"')) continue
    assert.ok(received.includes(`"params":${params}}`), received)
    await post(front.url, `{"jsonrpc":"2.0","id":${id},"result":${response}}`, session)
  }
  assert.ok(received.includes('"ok"'), received)
  assert.ok(answered.includes(`"result":${response}}`), answered)
})

const URL_NEEDED = (id: unknown) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id,
    error: {
      code: -32042,
      message: 'Sign in first.',
      data: {
        elicitations: [
          { mode: 'url', elicitationId: 'e-1', url: 'https://login.example/x', message: 'Sign in: grüße' },
        ],
      },
    },
  })

for (const status of [200, 400])
  test(`a URL that has to be visited first (-32042, HTTP ${status}) becomes a question to a modern client`, async () => {
    let visited = false
    const server = await startRawServer({
      era: 'legacy',
      call(request, res) {
        if (visited) return answer(request, OK_RESULT)
        res.writeHead(status, { 'content-type': 'application/json' }).end(URL_NEEDED(request.message.id))
        return undefined
      },
    })
    const front = await startGateway({ backends: [{ name: 'b', url: server.url }] })
    cleanups.push(
      () => server.close(),
      () => front.close(),
    )
    const canVisit = { elicitation: { url: {} } }
    const { json } = await callBy(front.url, canVisit)
    assert.equal(json.result, {
      resultType: 'input_required',
      inputRequests: {
        'url-1': {
          method: 'elicitation/create',
          params: { mode: 'url', url: 'https://login.example/x', message: 'Sign in: grüße' },
        },
      },
    })
    const refused = await callBy(front.url, { elicitation: {} })
    assert.is(refused.status, 400)
    assert.equal(refused.json.error.data, { requiredCapabilities: { elicitation: { url: {} } } })
    visited = true
    const retry = await callBy(front.url, canVisit, { inputResponses: { 'url-1': { action: 'accept' } } })
    assert.is(retry.json.result.content[0].text, 'ok')
    assert.not('inputResponses' in (server.calls('tools/call').at(-1)?.message.params ?? {}))
  })

test('a modern backend’s URL reaches a legacy client that supports URLs, with an id of its own', async () => {
  const server = await startRawServer({
    era: 'modern',
    call: (request) =>
      request.message.params?.['inputResponses'] === undefined
        ? answer(
            request,
            '{"resultType":"input_required","inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example","message":"m"}}}}',
          )
        : answer(request, OK_RESULT),
  })
  const front = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => front.close(),
  )
  const client = new Client({ name: 'x', version: '1' }, { capabilities: { elicitation: { url: {} } } })
  let question: Record<string, unknown> | undefined
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    question = params
    return { action: 'accept' }
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(front.url)))
  cleanups.push(() => client.close())
  const { content } = await client.callTool({ name: 'b_t', arguments: {} })
  assert.equal(content, [{ type: 'text', text: 'ok' }])
  assert.is(question?.['url'], 'https://x.example')
  assert.type(question?.['elicitationId'], 'string')
})

test('a legacy backend gets the log level of modern callers once, not with each call', async () => {
  const server = await startRawServer({
    era: 'legacy',
    call(request, res) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const level of ['debug', 'error'])
        res.write(
          `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"${level}","data":"x"}}\n\n`,
        )
      res.end(`data: ${answer(request, OK_RESULT)}\n\n`)
      return undefined
    },
    before({ message }, res) {
      if (message.method !== 'initialize') return false
      const result = { protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} }, serverInfo: {} }
      res.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
      res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
      return true
    },
  })
  const front = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  cleanups.push(
    () => server.close(),
    () => front.close(),
  )
  const listLevels = async (logLevel?: string) => {
    const _meta = meta({}, logLevel === undefined ? {} : { 'io.modelcontextprotocol/logLevel': logLevel })
    const { text } = await postModern(front.url, 'tools/call', { name: 'b_t', arguments: {}, _meta })
    return [...text.matchAll(/"level":"(\w+)"/g)].map(([, level]) => level)
  }
  assert.equal(await listLevels(), [])
  assert.is(server.calls('logging/setLevel').length, 0)
  assert.equal(await listLevels('warning'), ['error'])
  assert.equal(await listLevels('error'), ['error'])
  assert.equal(await listLevels('warning'), ['error'])
  assert.equal(await listLevels('debug'), ['debug', 'error'])
  assert.equal(await listLevels('info'), ['error'])
  assert.equal(
    server.calls('logging/setLevel').map(({ message }) => message.params?.['level']),
    ['warning', 'debug'],
  )
  const order = server.seen.map(({ message }) => message.method).filter((method) => method !== undefined)
  assert.ok(order.indexOf('logging/setLevel') < order.lastIndexOf('tools/call'))
})

test.run()
