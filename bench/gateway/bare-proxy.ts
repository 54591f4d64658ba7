/**
 * The least that a proxy on Hono and undici does: it forwards bodies without a look. Usage: bare-proxy.ts BACKEND-PORT
 */
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { createDispatcher } from '../../dataplane/net/connect.ts'
import { listen } from '../../dataplane/server/listen/listen.ts'

const dispatcher = createDispatcher({ origin: `http://127.0.0.1:${process.argv[2]}`, allowPrivateIP: true })
const app = new Hono<{ Bindings: HttpBindings }>()
app.post('/mcp', ({ env: { incoming, outgoing } }) => {
  const chunks: Buffer[] = []
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
  incoming.on('end', () => {
    const answer: Buffer[] = []
    const headers = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']
    const session = incoming.headers['mcp-session-id']
    if (typeof session === 'string') headers.push('mcp-session-id', session)
    dispatcher.dispatch(
      { path: '/mcp', method: 'POST', headers, body: Buffer.concat(chunks) },
      {
        onRequestStart() {},
        onResponseStart() {},
        onResponseData: (_controller, chunk) => void answer.push(chunk),
        onResponseEnd() {
          const body = answer.length === 1 ? (answer[0] as Buffer) : Buffer.concat(answer)
          outgoing.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length })
          outgoing.end(body)
        },
        onResponseError: () => void outgoing.destroy(),
      },
    )
  })
  return RESPONSE_ALREADY_SENT
})

const listener = await listen(app.fetch as Parameters<typeof listen>[0], '127.0.0.1:0')
process.on('message', () => process.send?.({ cpu: process.cpuUsage(), rss: process.memoryUsage.rss() }))
process.on('disconnect', () => process.exit())
process.send?.({ port: listener.port })
