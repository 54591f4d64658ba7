/** Checks the memory bounds of a shared channel, whatever its server and its clients send. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { ChannelClient } from '../../../../../dataplane/gateway/backends/channel/channel-client.ts'
import { ServerRequests } from '../../../../../dataplane/gateway/backends/channel/conversation.ts'
import { eventually } from '../../../../support/eventually.ts'
import { startGateway } from '../../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../../support/gateway/post.ts'
import { startSseChannel, startStdioServer } from '../../../../support/servers/channel-server.ts'

test('with too many unanswered requests the oldest is refused', () => {
  const client = { capabilities: { elicitation: {} } } as unknown as ChannelClient
  const exchange = { event: () => {} }
  const pending = new Map([[1, { client, exchange, isCall: true }]]) as never
  const sent: string[] = []
  const requests = new ServerRequests({ clients: new Set([client]), pending }, (text) => void sent.push(text))
  for (let id = 0; id < 300; id++) requests.forward('elicitation/create', String(id), '{}')
  assert.equal(
    sent.map((text) => JSON.parse(text).id),
    Array.from({ length: 44 }, (_, id) => id),
  )
  assert.not(requests.settle(client, '43'))
  assert.ok(requests.settle(client, '44'))
})

for (const start of [startStdioServer, startSseChannel])
  test(`${start.name}: a client can subscribe to 256 resources and no more`, async () => {
    const server = await start(({ id, method }, say) => {
      const answer = (result: object) => say(JSON.stringify({ jsonrpc: '2.0', id, result }))
      const capabilities = { resources: { subscribe: true } }
      if (method === 'server/discover')
        say(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: '' } }))
      else if (method === 'initialize')
        answer({ protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'n', version: '1' } })
      else if (method === 'resources/templates/list')
        answer({ resourceTemplates: [{ uriTemplate: 'a:{x}', name: 'x' }] })
      else if (method === 'resources/list') answer({ resources: [] })
      else if (id !== undefined) answer({})
    })
    const gateway = await startGateway({ backends: [{ name: 'b', ...server.config }] })
    const session = await openSession(gateway.url)
    const subscribe = async (uri: string) => {
      const { text } = await post(gateway.url, rpc('resources/subscribe', { uri }), session)
      return JSON.parse(text.replace(/^[^{]*/, ''))
    }
    try {
      await eventually('the first', async () => (await subscribe('a:0')).result !== undefined)
      for (let count = 1; count < 256; count++) assert.ok((await subscribe(`a:${count}`)).result)
      assert.is((await subscribe('a:256')).error.code, -32603)
      assert.ok((await subscribe('a:0')).result, 'one that it has')
      await post(gateway.url, rpc('resources/unsubscribe', { uri: 'a:0' }), session)
      assert.ok((await subscribe('a:256')).result)
    } finally {
      await gateway.close()
      await server.close()
    }
  })

test.run()
