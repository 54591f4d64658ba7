/** Checks that retries, tasks and streams after the first decision are authorized by the policies in force at that time. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import { GuardedGateway } from '../../../support/gateway/guarded.ts'
import { BASE_HEADERS, MODERN, modern, openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { buildLogMessage, Stage } from '../../../support/gateway/stage.ts'
import { answer, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'
import { type ReferenceServer, startReference } from '../../../support/servers/reference.ts'
import { startTaskServer, type TaskServer } from '../../../support/servers/task-server.ts'

const EXTENSION = { 'io.modelcontextprotocol/tasks': {} }
const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': { extensions: EXTENSION, elicitation: {} },
}

let jobs: RawServer
let tasks: TaskServer
let old: ReferenceServer
let both: ReferenceServer
let guarded: GuardedGateway

const ALL = { policies: ['permit(principal, action, resource);'] }
const allExcept = (what: string) => ({ policies: [...ALL.policies, `forbid(principal, action, resource == ${what});`] })

test.before(async () => {
  jobs = await startRawServer({
    era: 'modern',
    tools: [tool('job')],
    call: (request) => answer(request, '{"resultType":"task","taskId":"t-1","status":"working","ttlMs":1000}'),
    before(request, res) {
      const { message } = request
      const json = (result: string) => {
        res.writeHead(200, { 'content-type': 'application/json' }).end(answer(request, result))
        return true
      }
      if (message.method === 'server/discover')
        return json(
          `{"resultType":"complete","supportedVersions":["${MODERN}"],"capabilities":{"tools":{},"extensions":${JSON.stringify(EXTENSION)}},"ttlMs":0,"cacheScope":"private"}`,
        )
      if (message.method?.startsWith('tasks/') !== true) return false
      return json('{"resultType":"complete","taskId":"t-1","status":"completed"}')
    },
  })
  tasks = await startTaskServer()
  old = await startReference('sessions')
  both = await startReference()
  guarded = await GuardedGateway.start(
    [
      { name: 'jobs', url: jobs.url },
      { name: 'tasks', url: tasks.url },
      { name: 'old', url: old.url },
      { name: 'both', url: both.url },
    ],
    ALL,
  )
  await guarded.gateway.listed()
})

test.after(async () => {
  await guarded.close()
  await Promise.all([jobs.close(), tasks.close(), old.close(), both.close()])
})

test.before.each(() => guarded.enforce(ALL))

const alice = { sub: 'alice', groups: ['a'] }

test('access to a task needs access to its tool, in the modern era', async () => {
  const headers = await guarded.bearer(alice)
  const { json } = await postModern(guarded.url, 'tools/call', { name: 'jobs_job', _meta: META }, headers)
  const { taskId } = json.result
  const callTaskMethod = (method: string) =>
    postModern(guarded.url, method, { taskId, _meta: META }, { ...headers, 'mcp-name': taskId })
  const got = await callTaskMethod('tasks/get')
  assert.is(got.json.result.taskId, taskId)
  await guarded.enforce(allExcept('Tool::"jobs_job"'))
  const before = jobs.seen.length
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
    assert.is((await callTaskMethod(method)).status, 403)
  assert.is(jobs.seen.length, before)
})

test('access to a task and its listing need access to its tool, in sessions', async () => {
  const session = await openSession(guarded.url, await guarded.bearer(alice))
  const ask = (method: string, params: object = {}) => post(guarded.url, rpc(method, params), session)
  const started = await ask('tools/call', { name: 'tasks_job', task: { ttl: 5 } })
  const message = started.json ?? JSON.parse(started.text.slice(started.text.lastIndexOf('data: ') + 6))
  const { taskId } = message.result.task
  assert.is((await ask('tasks/get', { taskId })).status, 200)
  assert.is((await ask('tasks/list')).json.result.tasks.length, 1)
  await guarded.enforce(allExcept('Tool::"tasks_job"'))
  for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
    assert.is((await ask(method, { taskId })).status, 403, method)
  assert.equal((await ask('tasks/list')).json.result.tasks, [])
})

test('a session is judged by the token of each request, and not by the one that opened it', async () => {
  await guarded.enforce({ policies: ['permit(principal in Group::"a", action, resource);'] })
  const session = await openSession(guarded.url, await guarded.bearer(alice))
  const ask = async (groups: string[], method: string, params: object = {}) =>
    post(guarded.url, rpc(method, params), { ...session, ...(await guarded.bearer({ ...alice, groups })) })
  const call = { name: 'jobs_job', arguments: {} }
  for (const groups of [['a'], ['b'], [], ['b', 'a']]) {
    const isLetIn = groups.includes('a')
    assert.is((await ask(groups, 'tools/call', call)).status, isLetIn ? 200 : 403, groups.join())
    assert.is((await ask(groups, 'tools/list')).json.result.tools.length > 0, isLetIn, groups.join())
  }
})

test('the retry of a suspended call is judged again', async () => {
  const headers = await guarded.bearer(alice)
  const name = 'old_test_input_required_result_elicitation'
  const call = (more: object = {}) =>
    postModern(guarded.url, 'tools/call', { name, arguments: {}, _meta: META, ...more }, headers)
  const first = await call()
  const { result } = first.json ?? JSON.parse(first.text.slice(first.text.lastIndexOf('data: ') + 6))
  assert.is(result.resultType, 'input_required')
  await guarded.enforce(allExcept(`Tool::"${name}"`))
  const [key] = Object.keys(result.inputRequests)
  const inputResponses = { [key as string]: { action: 'accept', content: { name: 'Ada' } } }
  assert.is((await call({ inputResponses, requestState: result.requestState })).status, 403)
})

test('a change of policies sends list_changed to those alone who see a difference', async () => {
  const cleanups: (() => unknown)[] = []
  const listen = async (claims: Record<string, unknown>) => {
    const session = await openSession(guarded.url, await guarded.bearer(claims))
    return (await EventReader.listen(guarded.url, session)).leftBy(cleanups)
  }
  const watch = async (claims: Record<string, unknown>) => {
    const { body, headers } = modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
    const init = { method: 'POST', headers: { ...BASE_HEADERS, ...headers, ...(await guarded.bearer(claims)) }, body }
    return (await EventReader.open(guarded.url, init)).leftBy(cleanups)
  }
  try {
    const ops = { sub: 'olga', groups: ['ops'] }
    const [aliceLegacy, opsLegacy, aliceModern, opsModern] = [
      await listen(alice),
      await listen(ops),
      await watch(alice),
      await watch(ops),
    ]
    const changes = ({ messages }: EventReader) =>
      messages.filter(({ method }) => method?.endsWith('tools/list_changed'))
    await guarded.enforce({
      policies: [
        ...ALL.policies,
        'forbid(principal in Group::"a", action == Action::"call_tool", resource == Tool::"jobs_job");',
      ],
    })
    await eventually('the notices', () => changes(aliceLegacy).length === 1 && changes(aliceModern).length === 1)
    await guarded.enforce({ policies: ['permit(principal in Group::"ops", action, resource);'] })
    await eventually('the next ones', () => changes(aliceLegacy).length === 2 && changes(aliceModern).length === 2)
    assert.is(changes(opsLegacy).length, 0)
    assert.is(changes(opsModern).length, 0)
    const prompts = opsLegacy.messages.filter(({ method }) => method?.includes('list_changed'))
    assert.equal(prompts, [])
  } finally {
    for (const cleanup of cleanups) await cleanup()
  }
})

test('a stream brings updates only of resources that the caller may read', async () => {
  const cleanups: (() => unknown)[] = []
  const stage = await Stage.start()
  const watched = await GuardedGateway.start([{ name: 's', url: stage.backend.url }], {
    policies: [
      'permit(principal, action == Action::"call_tool", resource);',
      'permit(principal, action == Action::"read_resource", resource == Resource::"x://ok");',
    ],
  })
  const buildUpdate = (uri: string) =>
    `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } })}\n\n`
  const uris = ({ messages }: EventReader) => messages.flatMap(({ params }) => params?.uri ?? [])
  try {
    const session = await openSession(watched.url, await watched.bearer(alice))
    const stream = (await EventReader.listen(watched.url, session)).leftBy(cleanups)
    const call = (await stage.beginCall(watched.url, { ...session }, 'c1', 's_t')).leftBy(cleanups)
    await eventually('the backend’s stream', () => stage.gets.length > 0)
    stage.calls.at(-1)?.res.write(buildUpdate('x://secret') + buildUpdate('x://ok'))
    stage.gets[0]?.write(buildUpdate('x://secret') + buildUpdate('x://ok'))
    await eventually('the updates', () => uris(call).length > 0 && uris(stream).length > 0)
    assert.equal(uris(call), ['x://ok'])
    assert.equal(uris(stream), ['x://ok'])
    await watched.enforce({ policies: ['permit(principal, action == Action::"call_tool", resource);'] })
    stage.gets[0]?.write(buildUpdate('x://ok'))
    stage.gets[0]?.write(`data: ${buildLogMessage('behind it')}\n\n`)
    await eventually('the next message', () => stream.texts.includes('behind it'))
    assert.equal(uris(stream), ['x://ok'])
    stage.answer()
  } finally {
    for (const cleanup of cleanups) await cleanup()
    await watched.close()
    await stage.backend.close()
  }
})

test.run()
