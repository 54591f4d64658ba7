/** Reads a resource that a backend does not have: each client gets its own era's code, whatever code the backend sends. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, startRawServer } from '../../../support/servers/raw-server.ts'

const capabilities = { tools: {}, resources: {} }
const uri = 'x://nowhere'

for (const era of ['modern', 'legacy', 'both'] as const)
  for (const code of [-32602, -32002])
    for (const status of [200, 400])
      test(`an unknown resource of a ${era} backend that answers ${code} with HTTP ${status}`, async () => {
        const server = await startRawServer({
          era,
          call: () => undefined,
          before(request, res) {
            const { method } = request.message
            const give = (text: string, as = 200) => {
              res.writeHead(as, { 'content-type': 'application/json', 'mcp-session-id': 's' }).end(text)
              return true
            }
            if (method === 'server/discover' && era !== 'legacy')
              return give(answer(request, JSON.stringify({ supportedVersions: ['2026-07-28'], capabilities })))
            if (method === 'initialize' && era !== 'modern') {
              const result = { protocolVersion: '2025-11-25', capabilities, serverInfo: { name: 'x', version: '1' } }
              return give(answer(request, JSON.stringify(result)))
            }
            if (method !== 'resources/read') return false
            const error = { code, message: 'Resource not found: é', data: { uri } }
            return give(JSON.stringify({ jsonrpc: '2.0', id: request.message.id, error }), status)
          },
        })
        const gateway = await startGateway({ backends: [{ name: 'b', url: server.url }] })
        try {
          const modern = await postModern(gateway.url, 'resources/read', { uri })
          assert.equal(modern.json.error, { code: -32602, message: 'Resource not found: é', data: { uri } })
          const session = await openSession(gateway.url)
          const { json } = await post(gateway.url, rpc('resources/read', { uri }), session)
          assert.equal(json.error, { code: -32002, message: 'Resource not found: é', data: { uri } })
          assert.is(server.calls('resources/read').length, 2)
        } finally {
          await gateway.close()
          await server.close()
        }
      })

test.run()
