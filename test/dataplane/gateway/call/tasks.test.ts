import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, type RawServer, startRawServer, tool } from '../../../support/servers/raw-server.ts'

/** Tests the tasks extension (SEP-2663) between a modern client and a modern backend. */

const EXTENSION = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': EXTENSION,
}

let backend: RawServer
let gateway: GatewayUnderTest

test.before(async () => {
  backend = await startRawServer({
    era: 'modern',
    tools: [tool('job')],
    call: (request) => answer(request, '{"resultType":"task","taskId":"t-1","status":"working","ttlMs":1000}'),
    before({ message }, res) {
      const json = (text: string) => {
        res.writeHead(200, { 'content-type': 'application/json' }).end(text)
        return true
      }
      const id = JSON.stringify(message.id)
      if (message.method === 'server/discover')
        return json(
          `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":${JSON.stringify(EXTENSION.extensions)}},"ttlMs":0,"cacheScope":"private"}}`,
        )
      if (message.method?.startsWith('tasks/') !== true) return false
      return json(`{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","taskId":"t-1","status":"completed"}}`)
    },
  })
  gateway = await startGateway({ backends: [{ name: 'jobs', url: backend.url }] })
})

test.after(async () => {
  await gateway.close()
  await backend.close()
})

const begin = async (): Promise<string> => {
  const { json } = await postModern(gateway.url, 'tools/call', { name: 'jobs_job', _meta: META })
  assert.is(json.result.resultType, 'task')
  return json.result.taskId
}

const callTaskMethod = (method: string, taskId: string, more: object = {}) =>
  postModern(gateway.url, method, { taskId, _meta: META, ...more }, { 'mcp-name': taskId })

test('the extension is declared where a backend has it', async () => {
  const { json } = await postModern(gateway.url, 'server/discover')
  assert.equal(json.result.capabilities.extensions, EXTENSION.extensions)
})

test('a task’s id leads back to its backend', async () => {
  const id = await begin()
  assert.is.not(id, 't-1')
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    const { json } = await callTaskMethod(method, id)
    assert.is(json.result.taskId.length, id.length)
    assert.is(json.result.status, 'completed')
    const [seen] = backend.calls(method)
    assert.is(seen?.message.params?.['taskId'], 't-1')
    assert.is(seen?.headers['mcp-name'], 't-1')
  }
})

test('an unknown task id reaches no backend', async () => {
  backend.seen.length = 0
  const id = await begin()
  const changed = `${id[0] === 'A' ? 'B' : 'A'}${id.slice(1)}`
  for (const wrong of ['t-1', changed, '.', 'x.eyJ9'])
    assert.is((await callTaskMethod('tasks/get', wrong)).json.error.code, -32602, wrong)
  assert.is(backend.calls('tasks/get').length, 0)
})

test('a client that does not declare the extension gets an error; a header with another task is refused', async () => {
  const id = await begin()
  const undeclared = { ...META, 'io.modelcontextprotocol/clientCapabilities': {} }
  const { status, json } = await callTaskMethod('tasks/get', id, { _meta: undeclared })
  assert.is(status, 400)
  assert.is(json.error.code, -32021)
  const other = await postModern(gateway.url, 'tasks/get', { taskId: id, _meta: META }, { 'mcp-name': 'other' })
  assert.is(other.json.error.code, -32020)
})

test.run()
