import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { GatewayConfig } from '../../../../dataplane/config/gateway.ts'
import { eventually } from '../../../support/eventually.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import type { RpcResult } from '../../../support/gateway/rpc-message.ts'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

/** Tests composite tools over HTTP: order, values, failures, bounds. */

type Definition = NonNullable<GatewayConfig['compositeTools']>[number]

/** The backends' answers by tool name, computed from the arguments. */
const replies: Record<string, (args: unknown, request: RawRequest) => string | undefined> = {}
const echo = (args: unknown) => JSON.stringify({ content: [{ type: 'text', text: 'said' }], structuredContent: args })

let modernBackend: RawServer
let legacyBackend: RawServer
let gateway: GatewayUnderTest
let session: Record<string, string>

const readOnly = '"annotations":{"readOnlyHint":true,"openWorldHint":false}'
const serve = (era: 'modern' | 'legacy') =>
  startRawServer({
    era,
    tools: [tool('echo', readOnly), tool('odd'), tool('hidden', readOnly)],
    call(request, res) {
      const { name, arguments: args } = request.message.params as { name: string; arguments: unknown }
      const reply = (replies[name] ?? echo)(args, request)
      if (reply === undefined) res.on('close', () => undefined)
      return reply === undefined ? undefined : answer(request, reply)
    },
  })

const step = (id: string, more: object = {}) =>
  ({ id, type: 'tool', tool: 'new_echo', ...more }) as Definition['steps'][number]

const definitions: Definition[] = [
  {
    name: 'chain',
    description: 'Three steps in a row.',
    parameters: {
      type: 'object',
      properties: { word: { type: 'string' }, big: { type: 'integer' }, times: { type: 'integer', default: 3 } },
      required: ['word'],
      additionalProperties: false,
    },
    steps: [
      step('first', { arguments: { word: '{{.params.word}}', n: '{{.params.times}}', big: '{{.params.big}}' } }),
      step('second', {
        tool: 'old.hidden',
        dependsOn: ['first'],
        arguments: {
          deep: [{ at: ['{{.steps.first.output.word}}!', '{{.steps.first.output.n}}'] }],
          none: '{{.steps.first.output.none}}',
        },
      }),
      step('third', {
        dependsOn: ['second'],
        condition: '{{eq .steps.first.output.word "skip me"}}',
        defaultResults: { by: 'default' },
      }),
    ],
    output: {
      properties: {
        word: { type: 'string', value: '{{index .steps.second.output.deep 0 | json}}' },
        n: { type: 'integer', value: '{{.steps.first.output.n}}' },
        big: { type: 'integer', value: '{{.steps.first.output.big}}', default: 0 },
        said: { type: 'string', value: '{{.steps.second.output.text}}' },
        third: {
          type: 'object',
          properties: {
            status: { type: 'string', value: '{{.steps.third.status}}' },
            by: { type: 'string', value: '{{.steps.third.output.by}}' },
          },
        },
        usual: { type: 'number', value: '{{.steps.third.output.none}}', default: 1.5 },
      },
      required: ['word'],
    },
  },
  {
    name: 'each',
    parameters: { type: 'object', properties: { items: { type: 'array' } } },
    steps: [
      {
        id: 'all',
        type: 'forEach',
        collection: '{{.params.items}}',
        itemVar: 'one',
        maxIterations: 4,
        maxParallel: 2,
        step: { type: 'tool', tool: 'new_echo', arguments: { it: '{{.forEach.one}}', at: '{{.forEach.index}}' } },
      } as Definition['steps'][number],
    ],
  },
  ...(
    [
      ['continue', {}],
      ['retry', { retryCount: 2, retryDelay: '1ms' }],
    ] as const
  ).map(([action, more]) => ({
    name: `each_${action}`,
    parameters: { type: 'object', properties: { items: { type: 'array' } } },
    steps: [
      {
        id: 'all',
        type: 'forEach',
        collection: '{{.params.items}}',
        maxParallel: 1,
        onError: { action, ...more },
        step: { type: 'tool', tool: 'new_odd', arguments: { it: '{{.forEach.item}}' } },
      } as Definition['steps'][number],
    ],
  })),
  {
    name: 'each_late',
    steps: [
      {
        id: 'all',
        type: 'forEach',
        collection: '[1, 2]',
        timeout: '300ms',
        step: { type: 'tool', tool: 'new_odd' },
      } as Definition['steps'][number],
    ],
  },
  {
    name: 'failing',
    parameters: { type: 'object', properties: { how: { type: 'string' } } },
    steps: [step('tried', { tool: 'new_odd', onError: { action: 'retry', retryCount: 2, retryDelay: '1ms' } })],
  },
  {
    name: 'going_on',
    steps: [
      step('odd', { tool: 'old_odd', onError: { action: 'continue' }, defaultResults: { x: 1 } }),
      step('after', {
        dependsOn: ['odd'],
        arguments: { x: '{{.steps.odd.output.x}}', e: '{{.steps.odd.error}}', s: '{{.steps.odd.status}}' },
      }),
    ],
  },
  { name: 'slow', timeout: '10s', steps: [step('waits', { tool: 'new_odd', timeout: '300ms' })] },
  { name: 'unknown', steps: [step('gone', { tool: 'new_gone' })] },
  { name: 'new_hidden', steps: [step('a')] },
  { name: 'claims', annotations: { readOnlyHint: true }, steps: [step('a', { tool: 'new_odd' })] },
]

test.before(async () => {
  modernBackend = await serve('modern')
  legacyBackend = await serve('legacy')
  gateway = await startGateway({
    backends: [
      { name: 'new', url: modernBackend.url },
      { name: 'old', url: legacyBackend.url },
    ],
    aggregation: { tools: [{ workload: 'old', filter: ['odd'] }] },
    compositeTools: definitions,
  })
  await gateway.listed()
  session = await openSession(gateway.url)
})

test.after(async () => {
  await gateway.close()
  await modernBackend.close()
  await legacyBackend.close()
})

test.before.each(() => {
  for (const name of Object.keys(replies)) delete replies[name]
})

/** Returns the status of the workflow `failing`. */
const failing = async () => unwrap((await gateway.status()).workflows.find(({ name }) => name === 'failing'))

/** Calls in each era and returns the result, which must be the same. */
async function call(
  name: string,
  args: object = {},
): Promise<Pick<RpcResult, 'content' | 'structuredContent' | 'isError'>> {
  const { json } = await postModern(gateway.url, 'tools/call', { name, arguments: args })
  const legacy = await post(gateway.url, rpc('tools/call', { name, arguments: args }), session)
  const { resultType, ...result } = json.result
  assert.is(resultType, 'complete')
  assert.equal(legacy.json.result, result)
  return result
}

const readText = ({ content }: Pick<RpcResult, 'content'>) => content[0].text

test('steps get values of parameters and earlier steps, at any depth and with their types', async () => {
  const result = await call('chain', { word: 'hey' })
  assert.equal(result.structuredContent, {
    word: '{"at":["hey!",3]}',
    n: 3,
    big: 0,
    said: 'said',
    third: { status: 'skipped', by: 'default' },
    usual: 1.5,
  })
  assert.equal(JSON.parse(readText(result)), result.structuredContent)
  const sent = legacyBackend.calls('tools/call').at(-1)?.message.params
  assert.is(sent?.['name'], 'hidden')
  assert.equal(sent?.['arguments'], { deep: [{ at: ['hey!', 3] }] })
})

test('integers beyond the precision of JavaScript stay as they were written', async () => {
  const big = '12345678901234567891'
  replies['echo'] = () => `{"content":[],"structuredContent":{"word":"a","big":${big}}}`
  const body = rpc('tools/call', { name: 'chain', arguments: { word: 'a', big: 1 } }).replace('"big":1', `"big":${big}`)
  const { text } = await post(gateway.url, body, session)
  assert.match(text, `"big":${big}`)
  assert.match(modernBackend.calls('tools/call').at(-1)?.body ?? '', `"big":${big}`)
})

test('composite tools are listed after the others, with their hints; clashes are reported', async () => {
  const { json } = await postModern(gateway.url, 'tools/list')
  const { tools } = json.result
  assert.equal(
    tools.map(({ name }) => name),
    [
      ...['new_echo', 'new_hidden', 'new_odd', 'old_odd', 'chain'],
      ...['each', 'each_continue', 'each_late', 'each_retry', 'failing', 'going_on', 'slow', 'unknown'],
    ],
  )
  const findTool = (name: string) => unwrap(tools.find((one) => one.name === name))
  assert.equal(findTool('chain').annotations, { readOnlyHint: true, destructiveHint: false, openWorldHint: false })
  assert.equal(findTool('failing').annotations, { readOnlyHint: false, destructiveHint: true, openWorldHint: true })
  assert.equal(findTool('unknown').annotations, { readOnlyHint: false, destructiveHint: true, openWorldHint: true })
  assert.equal(findTool('chain').outputSchema.required, ['word'])
  assert.is(findTool('chain').inputSchema.properties['word']?.type, 'string')
  const { problems } = await gateway.status()
  assert.equal(
    problems.map(({ code, message }) => `${code}: ${message}`),
    [
      'CompositeTool: claims is not shown: readOnlyHint: true is contradicted by the tools it calls',
      'CompositeTool: new_hidden is not shown: new has a tool of this name',
      'CompositeTool: unknown calls new_gone, which no backend has at the moment',
    ],
  )
})

test('a hidden tool can be called only by a step', async () => {
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'old.hidden', arguments: {} })
  assert.is(json.error.message, 'There is no tool of this name.')
})

test('wrong arguments and too many items are error results', async () => {
  const wrong = await call('chain', { word: 1 })
  assert.is(wrong.isError, true)
  assert.is(readText(wrong), 'chain: arguments/word must be of type string')
  assert.is(readText(await call('chain', { word: 'a', more: 1 })), 'chain: arguments/more is not allowed here')
  assert.is(
    readText(await call('each', { items: [1, 2, 3, 4, 5] })),
    'each: step "all" has failed: its collection has 5 items, and may have 4',
  )
})

test('a step is repeated for each item, with a limited number at a time', async () => {
  const { structuredContent } = await call('each', { items: ['a', { b: 1 }, null] })
  assert.is(structuredContent['completed'], 3)
  assert.equal(
    (structuredContent['iterations'] as { output: unknown }[]).map(({ output }) => output),
    [
      { it: 'a', at: 0, text: 'said' },
      { it: { b: 1 }, at: 1, text: 'said' },
      { it: null, at: 2, text: 'said' },
    ],
  )
})

/** Collects the items of a repeated step; `bad` fails while `isBad` returns true. */
function itemsCalled(isBad: () => boolean): unknown[] {
  const called: unknown[] = []
  replies['odd'] = (args) => {
    const { it } = args as { it: unknown }
    called.push(it)
    return it === 'bad' && isBad() ? '{"content":[{"type":"text","text":"no"}],"isError":true}' : echo(args)
  }
  return called
}

test('a forEach that continues after a failure does all other items and counts them', async () => {
  const called = itemsCalled(() => true)
  const items = ['a', 'bad', 'c', 'd']
  const { structuredContent } = await call('each_continue', { items })
  assert.equal(called, [...items, ...items], 'once in each era')
  const { count, completed, failed, iterations } = structuredContent as Record<string, unknown>
  assert.equal([count, completed, failed], [4, 3, 1])
  assert.equal(
    (iterations as { status: string; error?: string }[]).map(({ status, error }) => [status, error]),
    [
      ['completed', undefined],
      ['failed', 'no'],
      ['completed', undefined],
      ['completed', undefined],
    ],
  )
})

test('a forEach that is retried does the remaining items', async () => {
  let failures = 0
  const called = itemsCalled(() => ++failures % 2 === 1)
  const { structuredContent } = await call('each_retry', { items: ['a', 'bad', 'c'] })
  assert.equal(structuredContent['completed'], 3)
  const once = ['a', 'bad', 'bad', 'c']
  assert.equal(called, [...once, ...once])
})

test('a forEach that takes too long fails, and its calls are cancelled at the backend', async () => {
  replies['odd'] = () => undefined
  assert.is(readText(await call('each_late')), 'each_late: step "all" has failed: it took longer than 0.3 s')
})

test('a failing step is retried, and then named in the error', async () => {
  let calls = 0
  replies['odd'] = () => JSON.stringify({ content: [{ type: 'text', text: `no ${++calls}` }], isError: true })
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'failing', arguments: {} })
  assert.is(json.result.isError, true)
  assert.is(readText(json.result), 'failing: step "tried" has failed: no 3')
  calls = 0
  replies['odd'] = (args) => (++calls < 3 ? '{"content":[],"isError":true}' : echo(args))
  const again = await postModern(gateway.url, 'tools/call', { name: 'failing', arguments: {} })
  assert.is(readText(again.json.result), 'said')
})

test('after a tolerated failure, the next steps see the default and the reason', async () => {
  replies['odd'] = () => '{"content":[{"type":"text","text":"out of order"}],"isError":true}'
  const { structuredContent } = await call('going_on')
  assert.equal(structuredContent, { x: 1, e: 'out of order', s: 'failed' })
})

test('a step that takes too long fails and is cancelled at the backend', async () => {
  replies['odd'] = () => undefined
  const result = await call('slow')
  assert.is(readText(result), 'slow: step "waits" has failed: it took longer than 0.3 s')
  await eventually('no call left', async () => (await gateway.status()).workflows.every(({ running }) => running === 0))
})

test('an unknown tool is an error result that names the step', async () => {
  assert.is(readText(await call('unknown')), 'unknown: step "gone" has failed: There is no tool of this name.')
})

test('the status lists running composite tools; a client that cancels ends its run', async () => {
  let closed = 0
  replies['odd'] = () => undefined
  const cancelling = new AbortController()
  const running = fetch(gateway.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', { name: 'failing', arguments: {} }, 'to-cancel'),
    signal: cancelling.signal,
  })
  running.then(
    () => closed++,
    () => closed++,
  )
  await eventually('it runs', async () => (await failing()).running === 1)
  assert.equal((await failing()).steps, ['tried'])
  await post(
    gateway.url,
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'to-cancel' } }),
    session,
  )
  await eventually('it has ended', async () => (await failing()).running === 0)
  await eventually('its response ends', () => closed === 1)
})

test('the end of a session ends its runs', async () => {
  replies['odd'] = () => undefined
  const other = await openSession(gateway.url)
  const running = post(gateway.url, rpc('tools/call', { name: 'failing', arguments: {} }), other)
  await eventually('it runs', async () => (await failing()).running === 1)
  await fetch(gateway.url, { method: 'DELETE', headers: other })
  await running
  assert.is((await failing()).running, 0)
})

test('a modern client that disconnects ends its run, at the backend too', async () => {
  let gone = false
  replies['odd'] = (_args, request) => {
    void request
    return undefined
  }
  const leaving = new AbortController()
  const before = modernBackend.calls('tools/call').length
  const running = fetch(gateway.url, {
    method: 'POST',
    headers: {
      ...BASE_HEADERS,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'failing',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'failing',
        arguments: {},
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
    signal: leaving.signal,
  }).catch(() => (gone = true))
  await eventually('the call', () => modernBackend.calls('tools/call').length > before)
  leaving.abort()
  await running
  assert.is(gone, true)
  await eventually('it has ended', async () => (await failing()).running === 0)
  // A retry would be a second call.
  assert.is(modernBackend.calls('tools/call').length, before + 1)
})

test('progress is sent after each step', async () => {
  const body = rpc('tools/call', { name: 'going_on', arguments: {}, _meta: { progressToken: 'p' } })
  const { text } = await post(gateway.url, body, session)
  const events = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)))
  assert.equal(
    events.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params),
    [
      { progressToken: 'p', progress: 1, total: 2, message: 'step odd: completed' },
      { progressToken: 'p', progress: 2, total: 2, message: 'step after: completed' },
    ],
  )
  assert.ok(events.at(-1).result)
})

test.run()
