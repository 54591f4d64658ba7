/** Tests runs that wait, are asked within a forEach, are cancelled halfway, or outlive their definition. */

import type { ServerResponse } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
}
const composites = (...tools: object[]) => tools as unknown as NonNullable<TestConfig['compositeTools']>
const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] }
const call = (id: string, name: string, more: object = {}) => ({ id, type: 'tool', tool: `b_${name}`, ...more })

/** The pending calls of `held`. */
let open: { readonly request: RawRequest; readonly res: ServerResponse }[] = []
let backend: RawServer
let oldBackend: RawServer
const stage = new RedisStage(test, () => backend.url)

const serve = (era: 'modern' | 'legacy') =>
  startRawServer({
    era,
    tools: [tool('echo'), tool('held')],
    call(request, res) {
      const { name, arguments: args = {} } = request.message.params as { name: string; arguments?: object }
      if (name === 'held') {
        open.push({ request, res })
        return undefined
      }
      return answer(request, JSON.stringify({ resultType: 'complete', content: [], structuredContent: args }))
    },
  })
test.before(async () => {
  backend = await serve('modern')
  oldBackend = await serve('legacy')
})
test.before.each(() => {
  open = []
})
test.after(async () => {
  await backend.close()
  await oldBackend.close()
})

const release = (text: string) => {
  for (const { request, res } of open.splice(0))
    res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(answer(request, JSON.stringify({ resultType: 'complete', content: [], structuredContent: { text } })))
}

async function start(config: Partial<TestConfig>): Promise<GatewayUnderTest> {
  const gateway = await startGateway({ backends: [{ name: 'b', url: backend.url }], ...config })
  stage.cleanups.push(() => gateway.close())
  await gateway.listed()
  return gateway
}
const callModern = (url: string, name: string, more: object = {}) =>
  postModern(url, 'tools/call', { name, arguments: {}, _meta: META, ...more })
const running = async (gateway: GatewayUnderTest) =>
  (await gateway.status()).workflows.reduce((sum, one) => sum + one.running, 0)

async function sessionAt(url: string): Promise<Record<string, string>> {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'a', version: '1' },
  }
  const { headers } = await post(url, rpc('initialize', params, 0))
  return { 'mcp-session-id': headers.get('mcp-session-id') as string, 'mcp-protocol-version': '2025-11-25' }
}
const callIn = (url: string, session: Record<string, string>, name: string) =>
  EventReader.open(url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', { name, arguments: {} }, 'c'),
  })

const ASKING_EACH = composites({
  name: 'ask_each',
  steps: [
    call('before', 'echo', { arguments: { n: 1 } }),
    {
      id: 'each',
      type: 'forEach',
      collection: '["a","b","c"]',
      maxParallel: 2,
      dependsOn: ['before'],
      step: { type: 'elicitation', message: 'Is {{.forEach.item}} right?', schema, onDecline: { action: 'continue' } },
    },
    call('after', 'echo', { dependsOn: ['each'], arguments: { of: '{{.steps.each.output.iterations}}' } }),
  ],
})
const readSteps = ({ structuredContent: { of } }: RpcResult) =>
  (of as { action: string; content?: { ok: boolean } }[]).map(({ action, content }) => [action, content?.ok])

test('a user is asked once for each item, at whichever replica the client calls', async () => {
  const [one, two] = await stage.twoReplicas({ compositeTools: ASKING_EACH })
  const before = backend.calls('tools/call').length
  const replicas = [one, two, one, two]
  let { json } = await callModern(one.url, 'ask_each')
  const questions: string[] = []
  for (let turn = 1; json.result.resultType === 'input_required'; turn++) {
    assert.ok(turn <= 3, 'no question is asked twice')
    const { requestState, inputRequests } = json.result
    const inputResponses = Object.fromEntries(
      Object.entries(inputRequests).map(([key, { params }]) => {
        questions.push(params.message)
        return [
          key,
          params.message === 'Is b right?' ? { action: 'decline' } : { action: 'accept', content: { ok: true } },
        ]
      }),
    )
    const { url } = replicas[turn] as GatewayUnderTest
    json = (await callModern(url, 'ask_each', { requestState, inputResponses })).json
  }
  assert.equal(questions.sort(), ['Is a right?', 'Is b right?', 'Is c right?'])
  assert.equal(readSteps(json.result), [
    ['accept', true],
    ['decline', undefined],
    ['accept', true],
  ])
  assert.is(backend.calls('tools/call').length, before + 2, 'no step is done twice')
})

test('the user of a session is asked about each item while the call waits', async () => {
  const { url } = await start({ compositeTools: ASKING_EACH })
  const session = await sessionAt(url)
  const reader = await callIn(url, session, 'ask_each')
  const answered = new Set<unknown>()
  const next = () => reader.messages.filter(({ method, id }) => method === 'elicitation/create' && !answered.has(id))
  for (let count = 0; count < 3; count++) {
    await eventually('a question', () => next().length > 0)
    assert.ok(next().length <= 2, 'so many at a time')
    const { id, params } = unwrap(next()[0])
    answered.add(id)
    const result =
      params.message === 'Is b right?' ? { action: 'decline' } : { action: 'accept', content: { ok: true } }
    await post(url, JSON.stringify({ jsonrpc: '2.0', id, result }), session)
  }
  await eventually('the answer', () => reader.messages.some(({ id }) => id === 'c'))
  assert.equal(readSteps(unwrap(reader.messages.find(({ id }) => id === 'c')).result), [
    ['accept', true],
    ['decline', undefined],
    ['accept', true],
  ])
})

const IN_THE_MIDDLE = composites({
  name: 'middle',
  steps: [
    call('first', 'echo'),
    {
      id: 'each',
      type: 'forEach',
      collection: '[1,2,3]',
      maxParallel: 2,
      dependsOn: ['first'],
      step: { type: 'tool', tool: 'b_held' },
    },
    call('last', 'echo', { dependsOn: ['each'] }),
  ],
})

for (const era of ['modern', 'legacy'] as const)
  test(`a client that cancels stops the running calls at a ${era} backend, and no more begin`, async () => {
    const behind = era === 'modern' ? backend : oldBackend
    const gateway = await start({ backends: [{ name: 'b', url: behind.url }], compositeTools: IN_THE_MIDDLE })
    const isStopped = ({ request, res }: (typeof open)[number]) =>
      era === 'modern'
        ? res.destroyed
        : behind
            .calls('notifications/cancelled')
            .some(({ message }) => message.params?.['requestId'] === request.message.id)
    const waitUntilStopped = async (pending: typeof open) => {
      await eventually('both are stopped', () => pending.every(isStopped))
      await eventually('nothing runs', async () => (await running(gateway)) === 0)
      assert.is(behind.calls('tools/call').length, before + 3)
    }
    let before = behind.calls('tools/call').length
    const session = await sessionAt(gateway.url)
    const reader = callIn(gateway.url, session, 'middle')
    await eventually('two are called', () => open.length === 2)
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'c' } }
    await post(gateway.url, JSON.stringify(cancelled), session)
    await waitUntilStopped(open.splice(0))
    assert.not.ok((await reader).messages.some(({ id }) => id === 'c'))

    before = behind.calls('tools/call').length
    const leaving = new AbortController()
    const { headers, body } = modern('tools/call', { name: 'middle', arguments: {}, _meta: META })
    const gone = fetch(gateway.url, {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...headers },
      body,
      signal: leaving.signal,
    }).then(
      () => false,
      () => true,
    )
    await eventually('two are called', () => open.length === 2)
    leaving.abort()
    assert.is(await gone, true)
    await waitUntilStopped(open.splice(0))
  })

test('a step that fails stops those beside it', async () => {
  const gateway = await start({
    compositeTools: composites({
      name: 'beside',
      steps: [call('waits', 'held'), call('gone', 'echo', { arguments: { a: '{{fromJson "no"}}' } })],
    }),
  })
  const { json } = await callModern(gateway.url, 'beside')
  assert.match(json.result.content[0].text, 'step "gone" has failed')
  await eventually('it is stopped', () => open.every(({ res }) => res.destroyed))
  assert.is(await running(gateway), 0)
})

test('a run keeps its definition after a reload, and later calls use the new one', async () => {
  const definition = (word: string) =>
    composites({
      name: 'words',
      steps: [
        call('waits', 'held'),
        call('says', 'echo', { dependsOn: ['waits'], arguments: { word, had: '{{.steps.waits.output.text}}' } }),
      ],
    })
  const backends = [{ name: 'b', url: backend.url }]
  const gateway = await start({ compositeTools: definition('old') })
  const old = callModern(gateway.url, 'words')
  await eventually('it runs', () => open.length === 1)
  const { config } = await gateway.status()
  await gateway.configure({ backends, compositeTools: definition('new') })
  await eventually('another configuration', async () => (await gateway.status()).config !== config)
  const next = callModern(gateway.url, 'words')
  await eventually('both run', () => open.length === 2)
  release('x')
  assert.equal((await old).json.result.structuredContent, { word: 'old', had: 'x' })
  assert.equal((await next).json.result.structuredContent, { word: 'new', had: 'x' })
})

test('a run whose tool or backend is removed from the configuration ends with an error result', async () => {
  const compositeTools = composites({
    name: 'words',
    steps: [call('waits', 'held'), call('says', 'echo', { dependsOn: ['waits'] })],
  })
  const gateway = await start({ compositeTools })
  const run = callModern(gateway.url, 'words')
  await eventually('it runs', () => open.length === 1)
  await gateway.configure({ backends: [{ name: 'other', url: oldBackend.url }], compositeTools })
  await eventually('the backend is gone', async () => (await gateway.status()).backends[0]?.name === 'other')
  release('x')
  const { json } = await run
  assert.is(json.result.content[0].text, 'words: step "says" has failed: There is no tool of this name.')
  await eventually('nothing runs', async () => (await running(gateway)) === 0)
  const { json: later } = await callModern(gateway.url, 'words')
  assert.is(later.result.isError, true)
  assert.match(later.result.content[0].text, 'step "waits" has failed')
})

test.run()
