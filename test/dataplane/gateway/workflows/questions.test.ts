/** Tests composite tools that ask their user, in both eras; a modern client's answer may reach any replica. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { EventReader } from '../../../support/gateway/event-reader.ts'
import type { TestConfig } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import { readQuestion } from '../../../support/gateway/rpc-message.ts'
import { answer, type RawServer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
}
const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] }

const compositeTools = [
  {
    name: 'release',
    parameters: { type: 'object', properties: { what: { type: 'string' } }, required: ['what'] },
    steps: [
      { id: 'build', type: 'tool', tool: 'b_t', arguments: { do: 'build {{.params.what}}' } },
      { id: 'sure', type: 'elicitation', message: 'Release {{.steps.build.output.do}}?', schema, dependsOn: ['build'] },
      {
        id: 'push',
        type: 'tool',
        tool: 'b_t',
        dependsOn: ['sure'],
        arguments: { do: 'push', sure: '{{.steps.sure.content.ok}}', of: '{{.steps.build.output.do}}' },
      },
    ],
  },
] as unknown as NonNullable<TestConfig['compositeTools']>

let backend: RawServer
const stage = new RedisStage(test, () => backend.url)

test.before(async () => {
  backend = await startRawServer({
    era: 'both',
    call: (request) =>
      answer(request, JSON.stringify({ content: [], structuredContent: request.message.params?.['arguments'] })),
  })
})
test.after(() => backend.close())

const call = (url: string, params: object = {}) =>
  postModern(url, 'tools/call', { name: 'release', arguments: { what: 'x' }, _meta: META, ...params })

test('a modern client answers with its retry, and any replica continues', async () => {
  const [one, two] = await stage.twoReplicas({ compositeTools })
  const { json } = await call(one.url)
  assert.is(json.result.resultType, 'input_required')
  const [key, request] = readQuestion(json.result)
  assert.equal(request, {
    method: 'elicitation/create',
    params: { message: 'Release build x?', requestedSchema: schema },
  })
  const { requestState } = json.result
  const before = backend.calls('tools/call').length
  const retry = (content: object, more: object = {}) => ({
    inputResponses: { [key]: { action: 'accept', content } },
    requestState,
    ...more,
  })
  const { json: done } = await call(two.url, retry({ ok: true }))
  assert.equal(done.result.structuredContent, { do: 'push', sure: true, of: 'build x' })
  // Completed steps are not repeated.
  assert.is(backend.calls('tools/call').length, before + 1)
  const { json: wrong } = await call(two.url, retry({ ok: 'yes' }))
  assert.is(wrong.result.isError, true)
  assert.match(wrong.result.content[0].text, 'release: step "sure" has failed: the answer of the user is not as asked')
  const { json: other } = await call(two.url, retry({ ok: true }, { arguments: { what: 'y' } }))
  assert.match(other.error.message, /other arguments/)
  const changed = `${requestState[0] === 'A' ? 'B' : 'A'}${requestState.slice(1)}`
  const { json: forged } = await call(two.url, retry({ ok: true }, { requestState: changed }))
  assert.match(forged.error.message, /is not one that this server gave/)
  const declined = await call(one.url, { inputResponses: { [key]: { action: 'decline' } }, requestState })
  assert.is(declined.json.result.content[0].text, 'release: step "sure" has failed: the user has declined')
})

test('a modern client that can’t be asked learns which capability it lacks', async () => {
  const [one] = await stage.twoReplicas({ compositeTools })
  const { status, json } = await postModern(one.url, 'tools/call', { name: 'release', arguments: { what: 'x' } })
  assert.is(status, 400)
  assert.is(json.error.code, -32021)
  assert.equal(json.error.data, { requiredCapabilities: { elicitation: {} } })
})

test('a legacy client is asked in its session while the call waits', async () => {
  const [one] = await stage.twoReplicas({ compositeTools })
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: { elicitation: {} },
    clientInfo: { name: 'a', version: '1' },
  }
  const opened = await post(one.url, rpc('initialize', params, 0))
  const session = {
    'mcp-session-id': opened.headers.get('mcp-session-id') as string,
    'mcp-protocol-version': '2025-11-25',
  }
  const reader = await EventReader.open(one.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...session },
    body: rpc('tools/call', { name: 'release', arguments: { what: 'x' } }, 'c'),
  })
  await eventually('the question', () => reader.messages.some(({ method }) => method === 'elicitation/create'))
  const { id } = unwrap(reader.messages.find(({ method }) => method === 'elicitation/create'))
  const response = { jsonrpc: '2.0', id, result: { action: 'accept', content: { ok: true } } }
  await post(one.url, JSON.stringify(response), session)
  await eventually('the answer', () => reader.messages.some((message) => message.id === 'c'))
  const { result } = unwrap(reader.messages.find((message) => message.id === 'c'))
  assert.equal(result.structuredContent, { do: 'push', sure: true, of: 'build x' })
})

test.run()
