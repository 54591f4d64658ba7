import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { type GatewayUnderTest, startGateway, type TestConfig } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, type RpcAnswer, rpc } from '../../../support/gateway/post.ts'
import type { RpcMessage } from '../../../support/gateway/rpc-message.ts'
import { type RedisServer, startRedis } from '../../../support/network/redis-server.ts'
import { answer, OK_RESULT, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { RELATED, relateToTask, startTaskServer, TASKS, type TaskServer } from '../../../support/servers/task-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

/**
 * Tests tasks of the legacy era (2025-11-25) with hand-written servers; see session-tasks-clients.test.ts for the
 * reference server.
 */

type Headers = Record<string, string>

let one: TaskServer
let two: TaskServer
let plain: RawServer
let newer: RawServer
let redis: RedisServer
let gateway: GatewayUnderTest

test.before(async () => {
  one = await startTaskServer()
  two = await startTaskServer()
  const tools = [tool('t', '"execution":{"taskSupport":"required"}')]
  plain = await startRawServer({ era: 'legacy', tools, call: (request) => answer(request, OK_RESULT) })
  newer = await startRawServer({ era: 'modern', tools, call: (request) => answer(request, OK_RESULT) })
  redis = await startRedis()
  gateway = await startGateway(buildConfig('all'))
})

test.after(async () => {
  await gateway.close()
  await Promise.all([one.close(), two.close(), plain.close(), newer.close(), redis.stop()])
})

test.before.each(() => {
  for (const server of [one, two]) {
    server.answers.clear()
    server.pageSize = 100
  }
  for (const { seen } of [one, two, plain, newer]) seen.length = 0
})

const buildConfig = (name: string, more: Partial<TestConfig> = {}): TestConfig => ({
  name,
  backends: [
    { name: 'one', url: one.url },
    { name: 'two', url: two.url },
    { name: 'plain', url: plain.url },
    { name: 'newer', url: newer.url },
  ],
  ...more,
})

const ask = async (session: Headers, method: string, params: object = {}, url = gateway.url): Promise<RpcMessage> =>
  readMessage(await post(url, rpc(method, params), session))

/** Returns the answer, whether it is JSON or the last event of a stream. */
const readMessage = ({ json, text }: RpcAnswer): RpcMessage => json ?? unwrap(parseMessages(text).at(-1), 'message')
const parseMessages = (text: string): RpcMessage[] =>
  [...text.matchAll(/^data: (.+)$/gm)].map((found) => JSON.parse(found[1]!))

/** Begins a task; returns its id as the client sees it. */
async function begin(session: Headers, name = 'one_job', url = gateway.url): Promise<string> {
  const { result } = await ask(session, 'tools/call', { name, task: { ttl: 5 } }, url)
  assert.is(result.task.status, 'working')
  return result.task.taskId
}

const capabilities = async (revision: string, url = gateway.url) => {
  const params = { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
  return (await post(url, rpc('initialize', params))).json.result.capabilities
}

test('tasks are offered only in their revision, and only if a backend supports them', async () => {
  assert.equal((await capabilities('2025-11-25')).tasks, TASKS)
  assert.is((await capabilities('2025-06-18')).tasks, undefined)
  const without = await startGateway({ backends: [{ name: 'plain', url: plain.url }] })
  assert.is((await capabilities('2025-11-25', without.url)).tasks, undefined)
  await without.close()
  const hidden = await startGateway({
    backends: [{ name: 'one', url: one.url }],
    aggregation: { tools: [{ workload: 'one', excludeAll: true }] },
  })
  assert.is((await capabilities('2025-11-25', hidden.url)).tasks, undefined)
  await hidden.close()
})

test('a call runs as a task whose id leads back to its backend', async () => {
  const session = await openSession(gateway.url)
  const { result } = await ask(session, 'tools/call', { name: 'two_job', task: { ttl: 5 }, arguments: { a: 1 } })
  const id = result.task.taskId
  const own = two.tasks.at(-1) as string
  assert.is.not(id, own)
  assert.equal(result, { task: { ...result.task, taskId: id }, more: 1 })
  assert.equal(two.calls('tools/call')[0]?.message.params, { name: 'job', task: { ttl: 5 }, arguments: { a: 1 } })
  for (const method of ['tasks/get', 'tasks/cancel', 'tasks/result']) {
    const message = await ask(session, method, { taskId: id, more: 1 })
    assert.equal(two.calls(method)[0]?.message.params, { taskId: own, more: 1 })
    if (method === 'tasks/result') assert.equal(message.result, { content: [], _meta: relateToTask(id) })
    else assert.is(message.result.taskId, id)
  }
  assert.is(one.calls('tasks/get').length, 0)
})

test('a large result names the task by the client’s id, however it arrives', async () => {
  const session = await openSession(gateway.url)
  const id = await begin(session)
  const own = one.tasks.at(-1) as string
  const content = [{ type: 'text', text: `"_meta":{"taskId":"${own}"}`.repeat(20_000) }]
  const meta = { 'a/b': { c: ['}', '"', 1] }, ...relateToTask(own), d: 'ü' }
  for (const members of [
    { content, _meta: meta },
    { _meta: meta, content, structuredContent: { _meta: relateToTask(own) } },
    { content, isError: false },
  ]) {
    one.answers.set('tasks/result', (request, res) => {
      const bytes = Buffer.from(answer(request, JSON.stringify(members)))
      res.writeHead(200, { 'content-type': 'application/json' })
      for (let at = 0; at < bytes.length; at += 70_001) res.write(bytes.subarray(at, at + 70_001))
      res.end()
      return undefined
    })
    const { result } = await ask(session, 'tasks/result', { taskId: id })
    const expected = '_meta' in members ? { ...members, _meta: { ...meta, ...relateToTask(id) } } : members
    assert.equal(result, expected)
  }
})

test('a task id of another session, an unknown one, or the backend’s own reaches no backend', async () => {
  const session = await openSession(gateway.url)
  const id = await begin(session)
  const other = await openSession(gateway.url)
  await begin(other)
  one.seen.length = 0
  const changed = `${id[0] === 'A' ? 'B' : 'A'}${id.slice(1)}`
  for (const [whose, taskId] of [
    [other, id],
    [session, changed],
    [session, one.tasks.at(-1)],
    [session, ''],
    [session, 7],
  ] as [Headers, unknown][])
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
      assert.is((await ask(whose, method, { taskId })).error.code, -32602, `${method} ${taskId}`)
  for (const twin of ['TaskId', 'ta\u017fkId'])
    assert.is((await ask(session, 'tasks/get', { taskId: id, [twin]: 'task-1' })).error.code, -32600, twin)
  assert.equal(one.seen, [])
  const older = await openSession(gateway.url, {}, '2025-06-18')
  for (const method of ['tasks/get', 'tasks/list'])
    assert.is((await ask(older, method, { taskId: id })).error.code, -32601)
})

test('no request of a client names a foreign task to a backend', async () => {
  const session = await openSession(gateway.url)
  const id = await begin(session)
  const own = one.tasks.at(-1) as string
  const foreign = await begin(await openSession(gateway.url))
  const metaSeen = async (meta: object) => {
    one.seen.length = 0
    await ask(session, 'tools/call', { name: 'one_job', _meta: meta })
    return one.calls('tools/call')[0]?.message.params?.['_meta']
  }
  assert.equal(await metaSeen({ k: 1, ...relateToTask(id) }), { k: 1, ...relateToTask(own) })
  for (const wrong of ['task-1', foreign]) assert.equal(await metaSeen({ k: 1, ...relateToTask(wrong) }), { k: 1 })
  assert.equal(await metaSeen({ k: 1, [RELATED.toUpperCase()]: { taskId: own } }), { k: 1 })
  assert.equal(await metaSeen({ ...relateToTask(id), [RELATED.toUpperCase()]: { taskId: own } }), relateToTask(own))
  assert.equal(await metaSeen({ [RELATED]: { taskId: id, TASKID: 'task-1' } }), relateToTask(own))
  newer.seen.length = 0
  await ask(session, 'tools/call', { name: 'newer_t', _meta: { k: 1, ...relateToTask('task-1') } })
  const [seen] = newer.calls('tools/call')
  assert.ok(seen)
  assert.not.match(seen.body, RELATED)
})

test('the list has the session’s own tasks of all backends, and no others', async () => {
  const session = await openSession(gateway.url)
  assert.equal((await ask(session, 'tasks/list')).result, { tasks: [] })
  const ids = [await begin(session), await begin(session, 'two_job'), await begin(session)]
  await begin(await openSession(gateway.url))
  const { result } = await ask(session, 'tasks/list')
  assert.equal(result.tasks.map(({ taskId }) => taskId).sort(), [...ids].sort())
  assert.is(result.tasks[0].createdAt, '2026-01-01T00:00:00Z')
  assert.is(result.nextCursor, undefined)
})

test('a long list has pages, and a cursor works in its own session alone', async () => {
  const session = await openSession(gateway.url)
  const ids = [await begin(session), await begin(session), await begin(session), await begin(session, 'two_job')]
  one.pageSize = 2
  const found: string[] = []
  let cursor: string | undefined
  do {
    const { result } = await ask(session, 'tasks/list', cursor === undefined ? {} : { cursor })
    found.push(...result.tasks.map(({ taskId }) => taskId))
    cursor = result.nextCursor
    if (cursor === undefined) break
    const other = await openSession(gateway.url)
    for (const [whose, wrong] of [
      [other, cursor],
      [session, `${cursor.slice(0, 40)}${cursor[40] === 'A' ? 'B' : 'A'}${cursor.slice(41)}`],
      [session, '2'],
    ] as const)
      assert.is((await ask(whose, 'tasks/list', { cursor: wrong })).error.code, -32602)
  } while (found.length < 100)
  assert.equal(found.sort(), [...ids].sort())
})

test('a backend that can’t list its tasks does not affect those of others', async () => {
  const session = await openSession(gateway.url)
  await begin(session)
  const id = await begin(session, 'two_job')
  for (const broken of ['{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}', 'x', '{"result":{}}']) {
    one.answers.set('tasks/list', () => broken)
    const { result } = await ask(session, 'tasks/list')
    assert.equal(
      result.tasks.map(({ taskId }) => taskId),
      [id],
    )
  }
})

const status = (taskId: string) => ({
  method: 'notifications/tasks/status',
  params: { taskId, status: 'working', ttl: null },
})

test('notifications about a task reach the client that began it, and no other', async () => {
  const session = await openSession(gateway.url)
  const other = await openSession(gateway.url)
  const [mine, theirs] = [await begin(session), await begin(other)]
  const [ownMine, ownTheirs] = one.tasks.slice(-2) as [string, string]
  const readers = await Promise.all([session, other].map((headers) => EventReader.listen(gateway.url, headers)))
  const [reader, otherReader] = readers as [EventReader, EventReader]
  await eventually('the backend is connected in both sessions', () => one.listening() === 2)
  one.say(status(ownMine))
  one.say(status(ownTheirs))
  one.say({ method: 'notifications/message', params: { level: 'info', data: 'x', _meta: relateToTask(ownTheirs) } })
  const listTaskMessages = ({ messages }: EventReader) => messages.filter(({ params }) => params.taskId !== undefined)
  const last = ({ messages }: EventReader) => messages.find(({ params }) => params.data === 'x')
  await eventually('all messages have arrived', () =>
    readers.every((each) => last(each) !== undefined && listTaskMessages(each).length === 1),
  )
  assert.equal(listTaskMessages(reader)[0]?.params, { taskId: mine, status: 'working', ttl: null })
  assert.equal(listTaskMessages(otherReader)[0]?.params, { taskId: theirs, status: 'working', ttl: null })
  assert.equal(last(reader)?.params._meta, {})
  assert.equal(last(otherReader)?.params._meta, relateToTask(theirs))
  await Promise.all(readers.map((each) => each.leave()))
})

test('messages before a task’s result, questions too, refer to that task', async () => {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'r', version: '1' },
  }
  const opened = await post(gateway.url, rpc('initialize', params))
  const session = {
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  const id = await begin(session)
  const own = one.tasks.at(-1) as string
  const event = (message: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`
  let finish = () => {}
  one.answers.set('tasks/result', (request, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event(status(own)))
    res.write(event(status('task-0')))
    const question = { message: '?', requestedSchema: {}, _meta: { k: 1, ...relateToTask(own) } }
    res.write(event({ id: 'q', method: 'elicitation/create', params: question }))
    finish = () => res.end(event({ id: request.message.id, result: { content: [], _meta: relateToTask(own) } }))
    return undefined
  })
  const reader = await EventReader.open(gateway.url, {
    method: 'POST',
    headers: { ...session, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: rpc('tasks/result', { taskId: id }, 5),
  })
  await eventually('the question', () => reader.messages.some(({ method }) => method === 'elicitation/create'))
  const question = unwrap(reader.messages.find(({ method }) => method === 'elicitation/create'))
  assert.equal(question.params._meta, { k: 1, ...relateToTask(id) })
  const result = { action: 'accept', content: {}, _meta: { r: 2, ...relateToTask(id) } }
  await post(gateway.url, JSON.stringify({ jsonrpc: '2.0', id: question.id, result }), session)
  await eventually('the answer', () => one.seen.some(({ message }) => message.id === 'q'))
  const replied = one.seen.find(({ message }) => message.id === 'q')?.message
  assert.equal(replied?.result, { action: 'accept', content: {}, _meta: { r: 2, ...relateToTask(own) } })
  finish()
  await eventually('the result', () => reader.ended)
  assert.equal(reader.messages.at(-1)?.result, { content: [], _meta: relateToTask(id) })
  const statuses = reader.messages.filter(({ method }) => method === 'notifications/tasks/status')
  assert.equal(
    statuses.map(({ params }) => params.taskId),
    [id],
  )
})

test('a backend that runs no tasks never gets a request for one', async () => {
  const session = await openSession(gateway.url)
  const { tools } = (await ask(session, 'tools/list')).result
  const readExecution = (name: string) => tools.find((each) => each.name === name)?.execution
  assert.equal(readExecution('one_job'), { taskSupport: 'optional', x: 1 })
  assert.equal(readExecution('plain_t'), {})
  for (const name of ['plain_t', 'newer_t']) {
    assert.is((await ask(session, 'tools/call', { name, task: {} })).error.code, -32601)
    assert.equal((await ask(session, 'tools/call', { name })).result.content, JSON.parse(OK_RESULT).content)
  }
  assert.is(plain.calls('tools/call').length + newer.calls('tools/call').length, 2)
})

test('a client that was offered no tasks gets a plain result', async () => {
  const older = await openSession(gateway.url, {}, '2025-06-18')
  const params = { name: 'one_job', task: {} }
  assert.equal((await ask(older, 'tools/call', params)).result, { content: [] })
  assert.equal((await postModern(gateway.url, 'tools/call', params)).json.result, {
    resultType: 'complete',
    content: [],
  })
  for (const { message } of one.calls('tools/call')) assert.is(message.params?.['task'], undefined)
  const without = await startGateway({ backends: [{ name: 'plain', url: plain.url }] })
  const session = await openSession(without.url)
  const { result } = await ask(session, 'tools/call', { name: 'plain_t', task: {} }, without.url)
  assert.equal(result, JSON.parse(OK_RESULT))
  assert.is(plain.calls('tools/call')[0]?.message.params?.['task'], undefined)
  await without.close()
})

test('any replica knows the session’s tasks', async () => {
  const config = buildConfig('replicas', { sessionStorage: { redis: { addresses: [redis.address] } } })
  const replicas = await Promise.all([startGateway(config), startGateway(config)])
  const [first, second] = replicas.map(({ url }) => url) as [string, string]
  const session = await openSession(first)
  await ask(session, 'ping', {}, second)
  const id = await begin(session, 'one_job', first)
  const reader = await EventReader.listen(second, session)
  assert.is((await ask(session, 'tasks/get', { taskId: id }, second)).result.taskId, id)
  await eventually('the list', async () => (await ask(session, 'tasks/list', {}, second)).result.tasks.length === 1)
  // The task begins at one replica while the client listens at the other.
  const late = await begin(session, 'one_job', first)
  await eventually('the status', () => {
    one.say(status(one.tasks.at(-1) as string))
    return reader.messages.some(({ params }) => params?.taskId === late)
  })
  await reader.leave()
  await Promise.all(replicas.map((replica) => replica.close()))
})

test.run()
