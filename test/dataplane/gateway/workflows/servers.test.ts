/**
 * Tests steps of composite tools with real servers, with those that ask or run tasks, and with the caller's own
 * credentials.
 */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1 } from '../../../support/gateway/clients.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { buildExchangingBackend, startExchangingGateway } from '../../../support/gateway/exchanging-gateway.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { buildInjectingBackend, startLoginGateway } from '../../../support/gateway/login-gateway.ts'
import { BASE_HEADERS, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { type RpcResult, readQuestion } from '../../../support/gateway/rpc-message.ts'
import { startAskingServer } from '../../../support/servers/asking-server.ts'
import { startMcpServer } from '../../../support/servers/dual-server.ts'
import { answer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

type Composites = NonNullable<TestConfig['compositeTools']>

const cleanups: (() => unknown)[] = []
test.after.each(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
const closeLater = <T extends { close(): unknown }>(one: T): T => {
  cleanups.push(() => one.close())
  return one
}
const composites = (...tools: object[]) => tools as unknown as Composites

async function start(config: TestConfig): Promise<GatewayUnderTest> {
  const gateway = closeLater(await startGateway(config))
  await gateway.listed()
  return gateway
}

const MODERN_META = (capabilities: object) => ({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': capabilities,
})

/** Opens a session of a client that can be asked, and makes a call in it whose answer is a stream. */
async function callInSession(url: string, name: string, capabilities: object = { elicitation: {}, sampling: {} }) {
  const clientInfo = { name: 'a', version: '1' }
  const opened = await post(url, rpc('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo }, 0))
  const session = {
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  const reader = await EventReader.open(url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', { name, arguments: {} }, 'c'),
  })
  const questions = () => reader.messages.filter(({ method }) => method !== undefined)
  const respond = (id: unknown, result: object) => post(url, JSON.stringify({ jsonrpc: '2.0', id, result }), session)
  const result = async () => {
    await eventually('the answer', () => reader.messages.some((message) => message.id === 'c'))
    return unwrap(reader.messages.find((message) => message.id === 'c')).result
  }
  return { session, questions, respond, result }
}

for (const mode of ['dual', 'sessions'] as const)
  test(`steps at servers on the SDK (${mode}), called by clients on the SDK of both eras`, async () => {
    const server = closeLater(await startMcpServer({ mode, name: 's' }))
    const steps = [
      { id: 'say', type: 'tool', tool: 's_echo', arguments: { message: 'hello' } },
      {
        id: 'again',
        type: 'tool',
        tool: 's.echo',
        arguments: { message: '{{.steps.say.output.text}}!' },
        dependsOn: ['say'],
      },
      { id: 'fails', type: 'tool', tool: 's_fail', onError: { action: 'continue' } },
      { id: 'throws', type: 'tool', tool: 's_throw', onError: { action: 'continue' } },
      { id: 'big', type: 'tool', tool: 's_big', arguments: { bytes: 100_000 } },
      { id: 'counted', type: 'tool', tool: 's_steps', arguments: { count: 3 } },
    ]
    const value = (text: string) => ({ type: 'string', value: text })
    const output = {
      properties: {
        said: value('{{.steps.again.output.text}}'),
        failed: value('{{.steps.fails.error}}'),
        thrown: value('{{.steps.throws.error}}'),
        size: { type: 'integer', value: '{{len .steps.big.output.text}}' },
        counted: value('{{.steps.counted.output.text}}'),
      },
    }
    const { url } = await start({
      backends: [{ name: 's', url: server.url }],
      compositeTools: composites({ name: 'all', steps, output }),
    })
    const expected = { said: 's: s: hello!', failed: 'it failed', thrown: 'thrown', size: 100_000, counted: '3 steps' }
    for (const era of ['modern', 'legacy'] as const) {
      const { client } = await connect(url, era)
      assert.equal((await client.callTool({ name: 'all', arguments: {} })).structuredContent, expected, era)
      await client.close()
    }
    const { client } = await connectV1(url)
    const progress: number[] = []
    const result = await client.callTool({ name: 'all', arguments: {} }, undefined, {
      onprogress: ({ progress: done }) => progress.push(done),
    })
    assert.equal(result.structuredContent, expected)
    assert.equal(progress, [1, 2, 3, 4, 5, 6], 'the steps’ progress, not that of the called tools')
    await client.close()
  })

test('a tool of a step that asks its client gets the answer, in both eras, for elicitation and sampling', async () => {
  const questions = {
    elicitation: {
      method: 'elicitation/create',
      params: { message: 'Who?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } },
      answer: { action: 'accept', content: { name: 'Ada' } },
    },
    sampling: {
      method: 'sampling/createMessage',
      params: { messages: [{ role: 'user', content: { type: 'text', text: 'A name?' } }], maxTokens: 5 },
      answer: { role: 'assistant', model: 'm', content: { type: 'text', text: 'Ada' } },
    },
  }
  for (const [what, { method, params, answer: answered }] of Object.entries(questions)) {
    const asking = closeLater(
      await startAskingServer({
        method,
        params,
        onAnswer: (call, { result }) =>
          call.finish({ content: [{ type: 'text', text: `got ${JSON.stringify(result)}` }] }),
      }),
    )
    const { url } = await start({
      backends: [{ name: 'b', url: asking.url }],
      compositeTools: composites({
        name: 'twice',
        steps: [
          { id: 'one', type: 'tool', tool: 'b_t' },
          { id: 'two', type: 'tool', tool: 'b_t', dependsOn: ['one'] },
        ],
        output: {
          properties: { both: { type: 'string', value: '{{.steps.one.output.text}} {{.steps.two.output.text}}' } },
        },
      }),
    })
    const isGiven = ({ structuredContent }: RpcResult) => {
      const both = String(structuredContent['both'])
      assert.is(both.split('got ').length, 3, what)
      assert.match(both, /Ada.*Ada/)
    }
    const legacy = await callInSession(url, 'twice')
    for (const count of [1, 2]) {
      await eventually('a question', () => legacy.questions().length === count)
      const question = unwrap(legacy.questions()[count - 1])
      assert.is(question.method, method)
      assert.equal(question.params, params)
      await legacy.respond(question.id, answered)
    }
    isGiven(await legacy.result())

    const calls = asking.asking.length
    const call = { name: 'twice', arguments: {}, _meta: MODERN_META({ elicitation: {}, sampling: {} }) }
    let { json } = await postModern(url, 'tools/call', call)
    for (const _ of ['one', 'two']) {
      assert.is(json.result.resultType, 'input_required')
      const [key, request] = readQuestion(json.result)
      assert.is(request.method, method)
      const { requestState } = json.result
      json = (await postModern(url, 'tools/call', { ...call, requestState, inputResponses: { [key]: answered } })).json
    }
    isGiven(json.result)
    assert.is(asking.asking.length, calls + 2, 'no step is done twice')
  }
})

test('if a client can’t be asked, the tool says so and its step fails', async () => {
  const server = closeLater(await startMcpServer({ mode: 'sessions' }))
  const { url } = await start({
    backends: [{ name: 's', url: server.url }],
    compositeTools: composites({ name: 'asks', steps: [{ id: 'a', type: 'tool', tool: 's_ask' }] }),
  })
  const call = { name: 'asks', arguments: {}, _meta: MODERN_META({}) }
  assert.match((await postModern(url, 'tools/call', call)).json.result.content[0].text, 'nobody answered')
})

test('a step calls its tool without the tasks extension, and fails if the tool still returns a task', async () => {
  const extension = 'io.modelcontextprotocol/tasks'
  let isLying = false
  const server = closeLater(
    await startRawServer({
      era: 'modern',
      tools: [tool('job')],
      call(request) {
        const meta = request.message.params?.['_meta'] as Record<string, { extensions: Record<string, unknown> }>
        const { extensions } = unwrap(meta['io.modelcontextprotocol/clientCapabilities'])
        assert.equal(extensions['other'], { a: 1 })
        return answer(
          request,
          isLying || extensions[extension] !== undefined
            ? '{"resultType":"task","taskId":"t-1","status":"working","ttlMs":1000}'
            : '{"resultType":"complete","content":[{"type":"text","text":"done"}]}',
        )
      },
    }),
  )
  const { url } = await start({
    backends: [{ name: 'b', url: server.url }],
    optimizer: {},
    compositeTools: composites({ name: 'works', steps: [{ id: 'a', type: 'tool', tool: 'b_job' }] }),
  })
  const _meta = MODERN_META({ extensions: { [extension]: {}, other: { a: 1 } } })
  const call = async (name: string, args = {}) =>
    (await postModern(url, 'tools/call', { name, arguments: args, _meta })).json.result
  assert.is((await call('works')).content[0].text, 'done')
  assert.is((await call('b_job')).resultType, 'task', 'a call of the client’s own')
  assert.is((await call('call_tool', { name: 'b_job' })).resultType, 'task')
  isLying = true
  const lied = await call('works')
  assert.is(lied.isError, true)
  assert.is(lied.content[0].text, 'works: step "a" has failed: the tool gave no result, but "task"')
})

test('steps use the caller’s own credential, exchanged or from the login', async () => {
  const result = '{"resultType":"complete","content":[{"type":"text","text":"ok"}]}'
  const raw = closeLater(await startRawServer({ era: 'both', call: (request) => answer(request, result) }))
  const each = {
    name: 'each',
    steps: [
      { id: 'a', type: 'tool', tool: 'api.t' },
      { id: 'all', type: 'forEach', collection: '[1,2]', dependsOn: ['a'], step: { type: 'tool', tool: 'api.t' } },
    ],
  }
  const compositeTools = composites(each)
  const listSent = () => raw.calls('tools/call').map(({ headers }) => headers.authorization ?? '')
  const exchangingGateway = closeLater(
    await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)], { compositeTools }),
  )
  const login = closeLater(
    await startLoginGateway({ backends: [buildInjectingBackend('api', raw.url)], compositeTools }),
  )
  await login.logIn({ subject: 'alice', login: 'login-1', provider: 'github' }, 'github-token-of-alice')
  for (const [gateway, headers, expected] of [
    [exchangingGateway, await exchangingGateway.bearer('alice'), /^Bearer for-alice-at-api/],
    [exchangingGateway, await exchangingGateway.bearer('bob'), /^Bearer for-bob-at-api/],
    [login, await login.bearer('alice', 'login-1'), /^Bearer github-token-of-alice$/],
  ] as const) {
    raw.seen.length = 0
    const { json } = await postModern(gateway.url, 'tools/call', { name: 'each', arguments: {} }, headers)
    assert.is(json.result.structuredContent.completed, 2, JSON.stringify(json))
    assert.is(listSent().length, 3)
    for (const authorization of listSent()) assert.match(authorization, expected)
  }
  raw.seen.length = 0
  const stranger = await login.bearer('bob', 'login-1')
  const { json } = await postModern(login.url, 'tools/call', { name: 'each', arguments: {} }, stranger)
  assert.is(json.result.isError, true)
  assert.match(json.result.content[0].text, /step "a" has failed: .*log in at the provider "github" again/)
  assert.equal(listSent(), [])
})

test.run()
