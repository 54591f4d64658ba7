/** Calls wait for their modern client's retry, with several replicas on one Redis: any of them may get it. */

import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { BASE_HEADERS, modern, postModern, type RpcAnswer } from '../../../support/gateway/post.ts'
import { RedisStage } from '../../../support/gateway/redis-stage.ts'
import type { RpcMessage } from '../../../support/gateway/rpc-message.ts'
import {
  type AskingServer,
  type AskingServerOptions,
  nameIn,
  startAskingServer,
} from '../../../support/servers/asking-server.ts'
import { answer, startRawServer } from '../../../support/servers/raw-server.ts'
import { unwrap } from '../../../support/unwrap.ts'

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: {},
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  },
}

let backend: AskingServer
/** Runs when the backend has its answer. */
let onAnswer: NonNullable<AskingServerOptions['onAnswer']> = () => {}
const stage = new RedisStage(test, () => backend.url)
const { cleanups } = stage

test.before(async () => {
  backend = await startAskingServer({ onAnswer: (call, message) => onAnswer(call, message) })
})
test.before.each(() => {
  onAnswer = (call, answered) => call.finish({ content: [{ type: 'text', text: `Hello, ${nameIn(answered)}!` }] })
})
test.after(() => backend.close())

const call = (url: string, params: object = {}) =>
  postModern(url, 'tools/call', { name: 'b_t', arguments: {}, _meta: META, ...params })

async function startQuestion(url: string): Promise<{ key: string; requestState: string }> {
  const { json } = await call(url, { _meta: { ...META, progressToken: 'p' } })
  assert.is(json.result.resultType, 'input_required')
  const [key] = Object.keys(json.result.inputRequests)
  return { key: key as string, requestState: json.result.requestState }
}

const retry = ({ key, requestState }: { key: string; requestState: string }, name = 'Ada') => ({
  inputResponses: { [key]: { action: 'accept', content: { name } } },
  requestState,
})

/** Returns all messages of an answer, whether it is JSON or a stream of events. */
const parseMessages = ({ json, text }: RpcAnswer): RpcMessage[] =>
  json === undefined ? [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data as string)) : [json]

test('a retry continues its call, whichever replica it reaches', async () => {
  const [one, two] = await stage.twoReplicas()
  for (const [asking, retrying] of [
    [one, two],
    [two, one],
    [one, one],
  ] as const) {
    const state = await startQuestion(asking.url)
    const { json, status } = await call(retrying.url, retry(state))
    assert.is(status, 200)
    assert.is(json.id, 1)
    assert.is(json.result.resultType, 'complete')
    assert.is(json.result.content[0].text, 'Hello, Ada!')
    assert.match((await call(retrying.url, retry(state))).json.error.message, /no waiting call|has ended/)
  }
})

test('a retry with other arguments continues no call, whichever replica it reaches', async () => {
  const [one, two] = await stage.twoReplicas()
  const state = await startQuestion(one.url)
  for (const { url } of [one, two]) {
    const { json } = await call(url, { ...retry(state), arguments: { amount: 10_000 } })
    assert.is(json.error.code, -32602)
    assert.match(json.error.message, /other arguments/)
  }
  assert.is(backend.asking.at(-1)?.answers.length, 0)
  assert.is((await call(two.url, retry(state))).json.result.content[0].text, 'Hello, Ada!')
})

test('a retry without an answer is asked again, by whichever replica', async () => {
  const [one, two] = await stage.twoReplicas()
  const { key, requestState } = await startQuestion(one.url)
  const again = (await call(two.url, { inputResponses: {}, requestState })).json.result
  assert.is(again.resultType, 'input_required')
  assert.equal(Object.keys(again.inputRequests), [key])
  const { json } = await call(one.url, retry({ key, requestState: again.requestState }))
  assert.is(json.result.content[0].text, 'Hello, Ada!')
})

test('notifications before the answer, and a large answer, pass the other replica unchanged', async () => {
  const [one, two] = await stage.twoReplicas()
  const text = 'grüße, 世界 🌍 '.repeat(60_000)
  onAnswer = (asking) => {
    asking.say({ method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } })
    asking.finish({ content: [{ type: 'text', text }] })
  }
  for (const url of [one.url, two.url]) {
    const state = await startQuestion(one.url)
    const [progress, last] = parseMessages(await call(url, retry(state)))
    const { id, result } = unwrap(last)
    assert.is(progress?.method, 'notifications/progress')
    assert.is(id, 1)
    assert.is(result.resultType, 'complete')
    assert.ok(result.content[0].text === text, 'the whole text')
  }
})

test('a client that disconnects from the other replica cancels its call', async () => {
  const [one, two] = await stage.twoReplicas()
  onAnswer = () => {}
  const state = await startQuestion(one.url)
  const leaving = new AbortController()
  const { body, headers } = modern('tools/call', { name: 'b_t', arguments: {}, _meta: META, ...retry(state) })
  const waiting = fetch(two.url, {
    method: 'POST',
    headers: { ...BASE_HEADERS, ...headers },
    body,
    signal: leaving.signal,
  }).catch(() => {})
  await eventually('the answer at the backend', () => backend.asking.at(-1)?.answers.length === 1)
  backend.seen.length = 0
  leaving.abort()
  await waiting
  await eventually('the cancellation', () => backend.calls('notifications/cancelled').length === 1)
  await eventually('the end of the stream', () => backend.asking.at(-1)?.isClosed === true)
})

test('an error of the backend reaches the client at the other replica', async () => {
  const [one, two] = await stage.twoReplicas()
  onAnswer = (asking) => asking.say({ id: asking.request.message.id, error: { code: -32002, message: 'gone' } })
  const { json } = await call(two.url, retry(await startQuestion(one.url)))
  assert.equal(json.error, { code: -32602, message: 'gone' })
})

test('any replica answers for a task that another one has begun', async () => {
  const jobs = await startRawServer({
    era: 'modern',
    call: (request) => answer(request, '{"resultType":"task","taskId":"t-1","status":"working","ttlMs":1000}'),
    before({ message }, res) {
      if (message.method?.startsWith('tasks/') !== true) return false
      res.writeHead(200, { 'content-type': 'application/json' })
      res.end(
        `{"jsonrpc":"2.0","id":${message.id},"result":{"resultType":"complete","taskId":"t-1","status":"completed"}}`,
      )
      return true
    },
  })
  cleanups.push(() => jobs.close())
  const [one, two] = await stage.twoReplicas({ backends: [{ name: 'b', url: jobs.url }] })
  const { taskId } = (await call(one.url)).json.result
  for (const { url } of [one, two]) {
    const { json } = await postModern(url, 'tasks/get', { taskId, _meta: META }, { 'mcp-name': taskId })
    assert.is(json.result?.status, 'completed', JSON.stringify(json))
  }
})

test('a stopping replica waits for calls whose clients have returned at another replica', async () => {
  const config = stage.config()
  const [one, two] = [await startGateway(config), await startGateway(config)]
  let closed: Promise<void> | undefined
  const stop = () => {
    closed ??= one.close()
    return closed
  }
  cleanups.push(() => two.close(), stop)
  await stage.ready([one, two])
  onAnswer = () => {}
  const waiting = call(two.url, retry(await startQuestion(one.url)))
  await eventually('the answer at the backend', () => backend.asking.at(-1)?.answers.length === 1)
  const stopped = stop()
  await eventually('it stops', async () => (await fetch(one.url).catch(() => undefined)) === undefined)
  backend.asking.at(-1)?.finish({ content: [{ type: 'text', text: 'in time' }] })
  assert.is((await waiting).json.result.content[0].text, 'in time')
  await stopped
})

test('if the replica with the call is killed, the client soon gets an error, before or during the retry', async () => {
  const [one, two] = await stage.oneToKill()
  const [before, during] = [await startQuestion(one.url), await startQuestion(one.url)]
  let answered = false
  onAnswer = () => {
    answered = true
  }
  const waiting = call(two.url, retry(during))
  await eventually('the answer at the backend', () => answered)
  await one.end('SIGKILL')
  for (const answer of [await waiting, await call(two.url, retry(before))]) {
    const { error } = unwrap(parseMessages(answer).at(-1))
    assert.is(error.code, -32602)
    assert.match(error.message, /Call the tool again/)
  }
})

test('if the replica with the client is killed, the call is soon cancelled', async () => {
  const [two, one] = await stage.oneToKill()
  onAnswer = () => {}
  const waiting = call(two.url, retry(await startQuestion(one.url))).catch(() => {})
  await eventually('the answer at the backend', () => backend.asking.at(-1)?.answers.length === 1)
  backend.seen.length = 0
  await two.end('SIGKILL')
  await waiting
  await eventually('the cancellation', () => backend.calls('notifications/cancelled').length === 1)
  await eventually('the end of the stream', () => backend.asking.at(-1)?.isClosed === true)
})

test.run()
