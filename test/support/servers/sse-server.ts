import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import { z } from 'zod'
import { endFileOnError } from '../or-fail.ts'

export interface SseServer {
  /** URL of the stream. */
  readonly url: string
  /** `METHOD path authorization` of each request. */
  readonly seen: string[]
  /** Headers of each request. */
  readonly headers: IncomingMessage['headers'][]
  /** Number of open streams. */
  readonly streams: number
  /** The required `Authorization`; undefined for none. */
  token: string | undefined
  /** The status for a message of a forgotten session; 404 by default. */
  forgottenStatus: number
  /** The error with which tool calls are answered, with status 500; undefined for none. */
  refusal: { readonly code: number; readonly message: string } | undefined
  /** True if a new stream's session is forgotten at once, so that its messages get `forgottenStatus`. */
  isForgetful: boolean
  /** Forgets all sessions without ending their streams, as a server behind a load balancer may. */
  forget(): void
  /** Ends all streams. */
  cut(): void
  close(): Promise<void>
}

/** A real server of revision 2024-11-05, on an SDK of that time. */
export async function startSseServer(tls?: { readonly key: string; readonly cert: string }): Promise<SseServer> {
  const transports = new Map<string, SSEServerTransport>()
  const seen: string[] = []
  const headers: IncomingMessage['headers'][] = []
  let token: string | undefined
  let streams = 0
  let forgottenStatus = 404
  let isForgetful = false
  let refusal: SseServer['refusal']
  const serve: RequestListener = endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
    headers.push(req.headers)
    seen.push(`${req.method} ${new URL(req.url ?? '', 'http://x').pathname} ${req.headers.authorization ?? ''}`)
    if (token !== undefined && req.headers.authorization !== token) return res.writeHead(401).end()
    if (req.method === 'GET') {
      const transport = new SSEServerTransport('/messages', res)
      if (!isForgetful) transports.set(transport.sessionId, transport)
      streams++
      res.on('close', () => {
        streams--
        transports.delete(transport.sessionId)
      })
      await build().connect(transport)
      return
    }
    const transport = transports.get(readSessionId(req))
    if (transport === undefined) return res.writeHead(forgottenStatus).end('Session not found')
    if (refusal === undefined) return transport.handlePostMessage(req, res)
    const { id } = JSON.parse(await text(req)) as { readonly id?: number }
    res.writeHead(500, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error: refusal }))
  })
  const server = tls === undefined ? createServer(serve) : createSecureServer(tls, serve)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `${tls === undefined ? 'http://127.0.0.1' : 'https://localhost'}:${(server.address() as AddressInfo).port}/sse`,
    seen,
    headers,
    get streams() {
      return streams
    },
    get token() {
      return token
    },
    set token(next) {
      token = next
    },
    get forgottenStatus() {
      return forgottenStatus
    },
    set forgottenStatus(next) {
      forgottenStatus = next
    },
    get refusal() {
      return refusal
    },
    set refusal(next) {
      refusal = next
    },
    get isForgetful() {
      return isForgetful
    },
    set isForgetful(next) {
      isForgetful = next
    },
    forget: () => transports.clear(),
    cut: () => server.closeAllConnections(),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const readSessionId = ({ url }: IncomingMessage) => new URL(url ?? '', 'http://x').searchParams.get('sessionId') ?? ''

function build(): McpServer {
  const server = new McpServer({ name: 'sse', version: '1.0.0' })
  const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
  server.registerTool('echo', { inputSchema: { message: z.string() } }, async ({ message }) => text(message))
  server.registerTool(
    'steps',
    { inputSchema: { count: z.number() } },
    async ({ count }, { _meta, sendNotification }) => {
      const progressToken = _meta?.progressToken
      for (let step = 1; step <= count && progressToken !== undefined; step++)
        await sendNotification({ method: 'notifications/progress', params: { progressToken, progress: step } })
      return text(`${count} steps`)
    },
  )
  server.registerTool('grow', {}, async () => {
    server.registerTool('grown', {}, async () => text('grown'))
    return text('ok')
  })
  return server
}
