/** Clients send any JSON anywhere: each gets a well-formed answer, and the next one is served as before. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postPlainly } from '../../../support/gateway/plain-post.ts'
import { BASE_HEADERS, MODERN, openSession, postModern, rpc } from '../../../support/gateway/post.ts'
import { buildVariants, digest } from '../../../support/gateway/wrong-values.ts'
import { answer, OK_RESULT, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'

const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: { form: {}, url: {} },
    sampling: {},
    extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html'] }, 'io.modelcontextprotocol/tasks': {} },
  },
  'io.modelcontextprotocol/clientInfo': { name: 'n', version: '1' },
  'io.modelcontextprotocol/logLevel': 'info',
  progressToken: 1,
}

/** The params of each method, by the eras that have it. */
const both: Readonly<Record<string, object>> = {
  'tools/list': { cursor: 'c' },
  'tools/call': { name: 'l_t', arguments: { a: { b: [1] } } },
  'prompts/list': {},
  'prompts/get': { name: 'l_p', arguments: { a: 'b' } },
  'resources/list': {},
  'resources/templates/list': {},
  'resources/read': { uri: 'test://a' },
  'completion/complete': { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: 'b' } },
  'no/such': { a: 1 },
}
const legacy: Readonly<Record<string, object>> = {
  ...both,
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: {
      elicitation: { form: {} },
      sampling: {},
      roots: { listChanged: true },
      tasks: { requests: {} },
      extensions: { 'io.modelcontextprotocol/ui': {} },
    },
    clientInfo: { name: 'n', version: '1' },
  },
  ping: {},
  'tools/call': { ...both['tools/call'], task: { ttl: 1 }, _meta: { progressToken: 1 } },
  'resources/subscribe': { uri: 'test://a' },
  'resources/unsubscribe': { uri: 'test://a' },
  'logging/setLevel': { level: 'info' },
  'tasks/get': { taskId: 'a' },
  'tasks/result': { taskId: 'a' },
  'tasks/list': { cursor: 'c' },
  'tasks/cancel': { taskId: 'a' },
}
const modern: Readonly<Record<string, object>> = {
  ...both,
  'tools/call': {
    ...both['tools/call'],
    inputResponses: { 'ask-1': { action: 'accept' } },
    requestState: 'none',
  },
  'server/discover': {},
  'subscriptions/listen': { notifications: { toolsListChanged: true, resourceSubscriptions: ['test://a'] } },
  'tasks/get': { taskId: 'a' },
  'tasks/update': { taskId: 'a', inputResponses: {} },
  'tasks/cancel': { taskId: 'a' },
}
const notifications: Readonly<Record<string, object>> = {
  'notifications/initialized': {},
  'notifications/cancelled': { requestId: 1, reason: 'r' },
  'notifications/progress': { progressToken: 1, progress: 1 },
  'notifications/roots/list_changed': {},
}

const servers: RawServer[] = []
let gateway: GatewayUnderTest

test.before(async () => {
  for (const era of ['legacy', 'modern'] as const)
    servers.push(await startRawServer({ era, call: (request) => answer(request, OK_RESULT) }))
  gateway = await startGateway({
    backends: servers.map(({ url }, index) => ({ name: index === 0 ? 'l' : 'm', url, timeout: '2s' })),
  })
})

test.after(async () => {
  await gateway.close()
  await Promise.all(servers.map((server) => server.close()))
})

const ORDERLY = [200, 202, 400, 404]

/** Sends a message, checks the status and headers, and the body unless it is a stream, and disconnects. */
async function send(text: string, headers: Record<string, string>, what: string): Promise<void> {
  const answered = await postPlainly({ url: gateway.url, headers: { ...BASE_HEADERS, ...headers }, body: text })
  assert.ok(ORDERLY.includes(answered?.status ?? 0), `${answered?.status} to ${what}`)
  const body = answered?.type === 'application/json' ? answered.text : ''
  if (body !== '') assert.is([JSON.parse(body)].flat()[0].jsonrpc, '2.0', what)
  assert.not.match(body, /node:internal|\.ts:\d/, what)
}

async function assertServedAsBefore(session: Record<string, string>): Promise<void> {
  assert.ok((await postModern(gateway.url, 'tools/call', { name: 'm_t' })).json.result)
  const body = rpc('tools/call', { name: 'l_t' }, 'good')
  const response = await fetch(gateway.url, { method: 'POST', headers: { ...BASE_HEADERS, ...session }, body })
  assert.match(await response.text(), /"result"/)
  const faults = gateway.lines.splice(0).filter(({ level }) => level === 'error')
  assert.is(faults.map(({ msg, err }) => `${msg} ${JSON.stringify(err)}`).join('\n'), '', 'no fault of our own')
}

for (const [method, params] of [...Object.entries(legacy), ...Object.entries(notifications)])
  test(`${method} in a session, with any JSON in each place`, async () => {
    const session = await openSession(gateway.url)
    const isRequest = !method.startsWith('notifications/')
    const message = { jsonrpc: '2.0', ...(isRequest ? { id: 7 } : {}), method, params }
    for (const { text, what } of buildVariants(message)) await send(text, session, `${method} ${what}`)
    await assertServedAsBefore(session)
  })

/** Returns the value for the header `Mcp-Name`. */
const readTarget = (params: object): unknown => {
  const { name, uri, taskId } = params as Record<string, unknown>
  return name ?? uri ?? taskId
}
const isOfTarget = /^\/params\/(name|uri|taskId)\b/

for (const [method, params] of [...Object.entries(modern), ...Object.entries(notifications)])
  test(`${method} without a session, with any JSON in each place`, async () => {
    const isRequest = !method.startsWith('notifications/')
    const message = { jsonrpc: '2.0', ...(isRequest ? { id: 7 } : {}), method, params: { ...params, _meta: META } }
    const target = readTarget(params)
    for (const { text, what } of buildVariants(message)) {
      // All methods read `_meta` the same way: one method tests all of it, each other one another fifth.
      if (what.startsWith('/params/_meta/') && method !== 'tools/call' && digest(method + what) % 5 > 0) continue
      // The headers match the body where possible, so that the request passes the check of the headers.
      const own = isOfTarget.test(what) ? (readTarget(JSON.parse(text).params) ?? target) : target
      const plain = typeof own === 'string' && /^[\x21-\x7e]+$/.test(own) ? { 'mcp-name': own } : undefined
      const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...plain }
      await send(text, headers, `${method} ${what}`)
    }
    await assertServedAsBefore(await openSession(gateway.url))
  })

test('answers of a client to questions, with any JSON in each place', async () => {
  const session = await openSession(gateway.url)
  const responses = [
    { jsonrpc: '2.0', id: 'portico-here-1', result: { action: 'accept', content: {}, _meta: {} } },
    { jsonrpc: '2.0', id: 'portico-here-1', error: { code: -1, message: 'no', data: {} } },
  ]
  for (const response of responses)
    for (const { text, what } of buildVariants(response)) await send(text, session, `a response, ${what}`)
  await assertServedAsBefore(session)
})

test('batches of any JSON', async () => {
  const session = await openSession(gateway.url, {}, '2025-03-26')
  const batch = [
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'l_t', arguments: {} } },
    { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} },
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
  ]
  for (const { text, what } of buildVariants(batch)) await send(text, session, `a batch, ${what}`)
  await assertServedAsBefore(session)
})

test('messages that are no objects', async () => {
  const session = await openSession(gateway.url)
  for (const { text } of buildVariants({ it: 1 })) {
    const [, value = ''] = /^\{"it":(.*)\}$/s.exec(text) ?? []
    for (const headers of [session, { 'mcp-protocol-version': MODERN, 'mcp-method': 'ping' }])
      await send(value, headers, value.slice(0, 40))
  }
  await assertServedAsBefore(session)
})

test.run()
