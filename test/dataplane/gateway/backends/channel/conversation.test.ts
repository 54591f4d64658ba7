/** Tests servers that share one channel (stdio, HTTP+SSE) and send any JSON anywhere. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ChannelReceiver } from '../../../../../dataplane/gateway/backends/channel/channel.ts'
import type { ChannelClient } from '../../../../../dataplane/gateway/backends/channel/channel-client.ts'
import { Conversation } from '../../../../../dataplane/gateway/backends/channel/conversation.ts'
import { Exchange } from '../../../../../dataplane/gateway/backends/channel/exchange.ts'
import { buildVariants } from '../../../../support/gateway/wrong-values.ts'
import { recordLog } from '../../../../support/kept-log.ts'

/** Opens a conversation with a subscribed client and a server whose lines the test writes. */
async function startConversation() {
  const { log, lines } = recordLog()
  const sent: string[] = []
  let server: ChannelReceiver | undefined
  const open = async (receiver: ChannelReceiver) => {
    server = receiver
    return { send: (text: string) => void sent.push(text), close() {} }
  }
  const conversation = await Conversation.open(open, [], log)
  const received: string[] = []
  const exchange = () => {
    let status = 0
    let over = false
    const created = new Exchange({
      onResponseStart: (_controller, code) => void (status = code),
      onResponseData: (_controller, chunk) => void received.push(chunk.toString()),
      onResponseEnd: () => void (over = true),
    })
    return { created, status: () => status, over: () => over }
  }
  const listening = exchange()
  const client: ChannelClient = {
    id: 'p',
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    listening: listening.created,
    subscribed: new Set(['test://a']),
    level: 'info',
  }
  conversation.clients.add(client)
  let count = 0
  /** Sends a request as the client does and returns its answer. */
  const ask = () => {
    const pending = exchange()
    const id = String(++count)
    const text = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}`
    conversation.forward({ text, id, method: 'tools/call', client, exchange: pending.created, headers: [] })
    return pending
  }
  const write = (text: string) => server?.message(text)
  const faults = () => lines.filter(({ level }) => level === 'error').map(({ msg, err }) => JSON.stringify([msg, err]))
  return { ask, write, sent, received, faults }
}

const params = { mode: 'form', message: 'm', level: 'info', uri: 'test://a', progressToken: 1, requestId: 1 }
const SAID: readonly object[] = [
  { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params },
  { jsonrpc: '2.0', id: 3, method: 'ping' },
  { jsonrpc: '2.0', method: 'notifications/progress', params: { ...params, _meta: {} } },
  { jsonrpc: '2.0', method: 'notifications/message', params },
  { jsonrpc: '2.0', method: 'notifications/cancelled', params },
  { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
  { jsonrpc: '2.0', method: 'notifications/resources/updated', params },
  {
    jsonrpc: '2.0',
    method: 'notifications/resources/updated',
    params: { ...params, _meta: { 'io.modelcontextprotocol/subscriptionId': '1' } },
  },
  { jsonrpc: '2.0', id: 999, result: { content: [] } },
  { jsonrpc: '2.0', id: 999, error: { code: -32603, message: 'm' } },
]

for (const [index, message] of SAID.entries())
  test(`any JSON at any place of a server’s message (${index}) affects that message alone`, async () => {
    for (const isAsking of [false, true]) {
      const { ask, write, sent, received, faults } = await startConversation()
      const pending = isAsking ? ask() : undefined
      for (const { text } of buildVariants(message)) write(text)
      for (const text of ['', 'null', '7', '[]', '[{}]', '{}', '"x"', '{"jsonrpc":"2.0"}', 'a banner']) write(text)
      assert.equal(faults(), [])
      const last = pending ?? ask()
      const id = JSON.parse(sent.filter((text) => text.includes('tools/call')).at(-1) as string).id
      write(`{"jsonrpc":"2.0","id":${id},"result":{"content":["the end"]}}`)
      assert.is(last.status(), 200)
      assert.ok(last.over())
      assert.match(received.at(-1) ?? '', 'the end')
    }
  })

test.run()
