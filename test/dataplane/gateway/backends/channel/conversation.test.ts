/** Tests servers that share one channel (stdio, HTTP+SSE) and send any JSON anywhere. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ChannelReceiver } from '../../../../../dataplane/gateway/backends/channel/channel.ts'
import type { ChannelClient } from '../../../../../dataplane/gateway/backends/channel/channel-client.ts'
import { Conversation } from '../../../../../dataplane/gateway/backends/channel/conversation.ts'
import { Exchange } from '../../../../../dataplane/gateway/backends/channel/exchange.ts'
import { variantsOf } from '../../../../support/gateway/wrong-values.ts'
import { keptLog } from '../../../../support/kept-log.ts'

/** Opens a conversation with a subscribed client and a server whose lines the test writes. */
async function talking() {
  const { log, lines } = keptLog()
  const sent: string[] = []
  let server: ChannelReceiver | undefined
  const open = async (receiver: ChannelReceiver) => {
    server = receiver
    return { send: (text: string) => void sent.push(text), close() {} }
  }
  const conversation = await Conversation.open(open, [], log)
  const heard: string[] = []
  const exchange = () => {
    let status = 0
    let over = false
    const made = new Exchange({
      onResponseStart: (_controller, given) => void (status = given),
      onResponseData: (_controller, chunk) => void heard.push(chunk.toString()),
      onResponseEnd: () => void (over = true),
    })
    return { made, status: () => status, over: () => over }
  }
  const listening = exchange()
  const client: ChannelClient = {
    id: 'p',
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    listening: listening.made,
    subscribed: new Set(['test://a']),
    level: 'info',
  }
  conversation.clients.add(client)
  let count = 0
  /** Sends a request as the client does and returns its answer. */
  const ask = () => {
    const asked = exchange()
    const id = String(++count)
    const text = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}`
    conversation.forward({ text, id, method: 'tools/call', client, exchange: asked.made, headers: [] })
    return asked
  }
  const write = (text: string) => server?.message(text)
  const faults = () => lines.filter(({ level }) => level === 'error').map(({ msg, err }) => JSON.stringify([msg, err]))
  return { ask, write, sent, heard, faults }
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
      const { ask, write, sent, heard, faults } = await talking()
      const asked = isAsking ? ask() : undefined
      for (const { text } of variantsOf(message)) write(text)
      for (const text of ['', 'null', '7', '[]', '[{}]', '{}', '"x"', '{"jsonrpc":"2.0"}', 'a banner']) write(text)
      assert.equal(faults(), [])
      const last = asked ?? ask()
      const id = JSON.parse(sent.filter((text) => text.includes('tools/call')).at(-1) as string).id
      write(`{"jsonrpc":"2.0","id":${id},"result":{"content":["the end"]}}`)
      assert.is(last.status(), 200)
      assert.ok(last.over())
      assert.match(heard.at(-1) ?? '', 'the end')
    }
  })

test.run()
