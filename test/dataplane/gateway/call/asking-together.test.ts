/** Two questions of a legacy backend arrive together, of which a modern client can be asked only the first. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { postModern } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

test('if one of two questions can’t be asked, the call ends when the client returns with the other answer', async () => {
  const refused: unknown[] = []
  const events = [
    { id: 'q-1', method: 'elicitation/create', params: { message: 'm', requestedSchema: { type: 'object' } } },
    { id: 'q-2', method: 'roots/list', params: {} },
  ].map((question) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...question })}\n\n`)
  const server = await startRawServer({
    era: 'legacy',
    call(request, res) {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write(events.join(''))
      finish = () => res.end(`data: ${answer(request, OK_RESULT)}\n\n`)
      return undefined
    },
    before({ message, body }, res) {
      if (message.id !== 'q-1' && message.id !== 'q-2') return false
      res.writeHead(202).end()
      if (message.id === 'q-1') finish()
      else refused.push(JSON.parse(body).error?.code)
      return true
    },
  })
  let finish = (): unknown => undefined
  const gateway = await startGateway({ backends: [{ name: 'b', url: server.url }] })
  try {
    const call = (more: object = {}) =>
      postModern(gateway.url, 'tools/call', {
        name: 'b_t',
        arguments: {},
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
        },
        ...more,
      })
    const { requestState, inputRequests } = (await call()).json.result
    assert.is(Object.keys(inputRequests).length, 1)
    await eventually('the second question to be refused', () => refused.length === 1)
    assert.equal(refused, [-32601])
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: 'decline' }]))
    const { status, json } = await call({ requestState, inputResponses })
    assert.is(status, 400)
    assert.is(json.error.code, -32021)
    assert.equal(json.error.data, { requiredCapabilities: { roots: {} } })
  } finally {
    await gateway.close()
    await server.close()
  }
})

test.run()
