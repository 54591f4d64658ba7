import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type GatewayUnderTest, startGateway } from '../../support/mcp-gateway.ts'
import { post, postModern } from '../../support/mcp-post.ts'
import { type ReferenceServer, startReference } from '../../support/mcp-reference.ts'

/** Questions of legacy backends to modern clients; the other ways are in conformance.test.ts. */

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

/** An answer, be it JSON or the last event of a stream. */
const resultOf = ({ json, text }: { json: any; text: string }) =>
  (json ?? JSON.parse(text.slice(text.lastIndexOf('data: ') + 6))).result

async function asked(): Promise<{ key: string; state: string }> {
  const result = resultOf(await call())
  assert.is(result.resultType, 'input_required')
  const [[key, request]] = Object.entries(result.inputRequests) as [[string, any]]
  assert.is(request.method, 'elicitation/create')
  assert.is(request.params.message, 'What is your name?')
  return { key, state: result.requestState }
}

const answerTo = (key: string) => ({ [key]: { action: 'accept', content: { name: 'Ada' } } })

test('a legacy backend’s question reaches a modern client, and its answer the waiting call', async () => {
  const { key, state } = await asked()
  const result = resultOf(await call({ inputResponses: answerTo(key), requestState: state }))
  assert.is(result.resultType, 'complete')
  assert.equal(result.content, [{ type: 'text', text: 'Hello, Ada!' }])
})

test('two calls at once are asked and answered each for itself', async () => {
  const [one, two] = await Promise.all([asked(), asked()])
  assert.is.not(one.state, two.state)
  const answer = ({ key, state }: { key: string; state: string }, name: string) =>
    call({ inputResponses: { [key]: { action: 'accept', content: { name } } }, requestState: state })
  const results = await Promise.all([answer(two, 'Two'), answer(one, 'One')])
  assert.equal(
    results.map((result) => resultOf(result).content[0].text),
    ['Hello, Two!', 'Hello, One!'],
  )
})

test('a retry without the answer is asked again', async () => {
  const { key, state } = await asked()
  const again = resultOf(await call({ inputResponses: {}, requestState: state }))
  assert.is(again.resultType, 'input_required')
  assert.equal(Object.keys(again.inputRequests), [key])
  const result = resultOf(await call({ inputResponses: answerTo(key), requestState: again.requestState }))
  assert.is(result.content[0].text, 'Hello, Ada!')
})

test('a state that was tampered with, used up or brought to another tool continues nothing', async () => {
  const { key, state } = await asked()
  const inputResponses = answerTo(key)
  const tampered = `${state.slice(0, 20)}${state[20] === 'A' ? 'B' : 'A'}${state.slice(21)}`
  for (const [params, name] of [
    [{ inputResponses, requestState: tampered }, TOOL],
    [{ inputResponses, requestState: 'x' }, TOOL],
    [{ inputResponses, requestState: state }, 'old_test_simple_text'],
  ] as const)
    assert.is((await call(params, name)).json.error.code, -32602)
  assert.is(resultOf(await call({ inputResponses, requestState: state })).content[0].text, 'Hello, Ada!')
  assert.is((await call({ inputResponses, requestState: state })).json.error.code, -32602)
})

test('a client that has not declared it is not asked', async () => {
  const { status, text } = await postModern(gateway.url, 'tools/call', { name: TOOL, arguments: {} })
  assert.is(status, 200)
  assert.not.match(text, /input_required/)
  assert.match((await post(gateway.url, '{}')).text, /jsonrpc/)
})

test.run()
