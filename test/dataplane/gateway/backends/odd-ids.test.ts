/** Tests backends that restrict request ids or rewrite them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import { connect, connectV1, readText } from '../../../support/gateway/clients.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, rpc } from '../../../support/gateway/post.ts'
import { startRawServer, tool } from '../../../support/servers/raw-server.ts'

const HUGE = 'x'.repeat(300_000)
const forms: Readonly<Record<string, (id: unknown) => string>> = {
  'as it was sent': (id) => JSON.stringify(id),
  'as text': (id) => JSON.stringify(String(id)),
  'as 7.0': (id) => `${id}.0`,
  'as text with spaces': (id) => `" ${id} "`,
  'as text of 7.0': (id) => `"${id}.0"`,
}

for (const [form, write] of Object.entries(forms))
  for (const era of ['legacy', 'modern'] as const)
    for (const isLast of [false, true])
      test(`${era}: a server that takes numeric ids only and returns them ${form}, ${isLast ? 'last' : 'first'}, works`, async () => {
        const result = (name: unknown) =>
          `{"resultType":"complete","content":[{"type":"text","text":"${name === 'huge' ? HUGE : 'ok'}"}]}`
        const server = await startRawServer({
          era,
          tools: [tool('t'), tool('huge')],
          call({ message: { id, params } }) {
            const member = `"result":${result(params?.['name'])}`
            return isLast
              ? `{${member},"id":${write(id)},"jsonrpc":"2.0"}`
              : `{"jsonrpc":"2.0","id":${write(id)},${member}}`
          },
          before({ message }, res) {
            if (message.method === undefined || message.id === undefined || typeof message.id === 'number') return false
            res.writeHead(400).end('the id must be a number')
            return true
          },
        })
        const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
        const clients = [
          (await connectV1(gateway.url)).client,
          (await connect(gateway.url, 'legacy')).client,
          (await connect(gateway.url, 'modern')).client,
        ]
        try {
          for (const client of clients) {
            assert.is((await client.listTools()).tools.length, 2)
            assert.is(readText(await client.callTool({ name: 't', arguments: {} })), 'ok')
            assert.is(readText(await client.callTool({ name: 'huge', arguments: {} })), HUGE)
          }
          const session = await openSession(gateway.url)
          const { json } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, 7), session)
          assert.is(json.id, 7, 'the client gets the id that it sent')
        } finally {
          for (const client of clients) await client.close()
          await gateway.close()
          await server.close()
        }
      })

test('an answer with another request’s id is refused, for lists and for calls', async () => {
  for (const id of ['999', '"x"', undefined]) {
    const own = id === undefined ? '' : `"id":${id},`
    let lists = 0
    const server = await startRawServer({
      era: 'legacy',
      call: () => `{"jsonrpc":"2.0",${own}"result":{"content":[]}}`,
      before({ message }, res) {
        if (message.method !== 'tools/list' || ++lists === 1) return false
        res.writeHead(200, { 'content-type': 'application/json' })
        res.end(`{"jsonrpc":"2.0",${own}"result":{"tools":[]}}`)
        return true
      },
    })
    const gateway = await startGateway({
      role: 'proxy',
      backends: [{ name: 'b', url: server.url }],
      failureHandling: { healthCheckInterval: '100ms', healthCheckTimeout: '90ms' },
    })
    try {
      const lastError = async () => (await gateway.status()).backends[0]?.lastError?.message ?? ''
      await eventually('a second list', async () => (await lastError()) === `answered another request: ${id}`)
      const session = await openSession(gateway.url)
      assert.ok((await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, 7), session)).json.error)
    } finally {
      await gateway.close()
      await server.close()
    }
  }
})

test('a numeric id does not match the string id that was sent', async () => {
  const server = await startRawServer({
    era: 'legacy',
    call: () => '{"jsonrpc":"2.0","id":7,"result":{"content":[]}}',
  })
  const gateway = await startGateway({ role: 'proxy', backends: [{ name: 'b', url: server.url }] })
  try {
    const session = await openSession(gateway.url)
    const { json } = await post(gateway.url, rpc('tools/call', { name: 't', arguments: {} }, '7'), session)
    assert.ok(json.error)
  } finally {
    await gateway.close()
    await server.close()
  }
})

test.run()
