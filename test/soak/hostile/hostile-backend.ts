/** A hostile backend for each era. The name of the called tool selects what it does. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HostileBackend {
  readonly url: string
  /** Number of opened sessions. */
  readonly sessions: number
  /** Number of calls that have not been answered. */
  readonly pending: number
  close(): Promise<void>
}

export interface HostileBackendOptions {
  readonly era: 'modern' | 'legacy'
  /** Bytes of JSON text in each tool's description. */
  readonly description?: number
  readonly tools?: number
  /** Bytes in its capabilities. */
  readonly capabilities?: number
}

const MIB = 1024 * 1024
const names = ['echo', 'large', 'medium', 'chat', 'hang', 'ask', 'noise', 'refuse', 'retry']

export async function startHostileBackend(options: HostileBackendOptions): Promise<HostileBackend> {
  const { era, tools = 0, description = 20, capabilities = 0 } = options
  let sessions = 0
  const openAnswers = new Set<ServerResponse>()
  const filler = 'x'.repeat(MIB)
  const list = [...names, ...Array.from({ length: tools }, (_, index) => `t${index}`)].map((name) => ({
    name,
    description: filler.slice(0, description),
    inputSchema: { type: 'object' },
  }))
  const said = {
    tools: {},
    resources: { subscribe: true },
    logging: {},
    experimental: { x: filler.repeat(8).slice(0, capabilities) },
  }

  const server = createServer((req, res) => void serve(req, res).catch(() => res.destroy()))

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    res.on('error', () => {})
    if (req.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      return
    }
    if (req.method !== 'POST') {
      res.writeHead(204).end()
      return
    }
    const chunks: Buffer[] = []
    try {
      for await (const chunk of req) chunks.push(chunk as Buffer)
    } catch {
      return
    }
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString())
    const type = era === 'modern' ? { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } : {}
    const answer = (result: object, headers = {}) =>
      res
        .writeHead(200, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result: { ...type, ...result } }))
    if (id === undefined) res.writeHead(202).end()
    else if (method === 'server/discover' && era === 'modern')
      answer({ supportedVersions: ['2026-07-28'], capabilities: said })
    else if (method === 'initialize' && era === 'legacy')
      answer(
        { protocolVersion: params.protocolVersion, capabilities: said, serverInfo: { name: 'h', version: '1' } },
        { 'mcp-session-id': `s${++sessions}` },
      )
    else if (method === 'tools/list') answer({ tools: list })
    else if (method === 'resources/templates/list')
      answer({ resourceTemplates: [{ uriTemplate: 'any://{+rest}', name: 'any' }] })
    else if (method === 'resources/list') answer({ resources: [] })
    else if (method === 'tools/call') await call(params.name, params, id, res, answer)
    else if (method === 'subscriptions/listen')
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    else if (method === 'ping' || method === 'resources/subscribe' || method === 'logging/setLevel') answer({})
    else res.writeHead(400).end()
  }

  /** Sends without waiting for a reader, as far as this process's own memory allows. */
  async function writePieces(res: ServerResponse, piece: Buffer, count: number): Promise<void> {
    const gone = once(res, 'close')
    for (let sent = 0; sent < count && !res.destroyed; sent++) {
      if (!res.write(piece)) await Promise.race([once(res, 'drain'), gone])
    }
  }

  interface Params {
    readonly _meta?: { readonly progressToken?: unknown }
    readonly arguments?: { readonly message?: unknown }
  }

  async function call(
    name: string,
    params: Params,
    id: unknown,
    res: ServerResponse,
    answer: (result: object) => void,
  ) {
    if (name === 'large') {
      res.writeHead(200, { 'content-type': 'application/json' })
      const type = era === 'modern' ? '"resultType":"complete",' : ''
      res.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${type}"content":[{"type":"text","text":"`)
      await writePieces(res, Buffer.from(filler), 40)
      res.end('"}]}}')
    } else if (name === 'medium') answer({ content: [{ type: 'text', text: filler.slice(0, 60 * 1024) }] })
    else if (name === 'chat') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const progressToken = params._meta?.progressToken
      const note = {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken, progress: 1, message: filler.slice(0, 32 * 1024) },
      }
      await writePieces(res, Buffer.from(`data: ${JSON.stringify(note)}\n\n`), 4_000)
      res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`)
    } else if (name === 'hang') {
      openAnswers.add(res)
      res.once('close', () => openAnswers.delete(res))
    } else if (name === 'ask') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const ask = {
        jsonrpc: '2.0',
        id: `q${JSON.stringify(id)}`,
        method: 'elicitation/create',
        params: { message: filler.slice(0, 200 * 1024), requestedSchema: { type: 'object', properties: {} } },
      }
      res.write(`data: ${JSON.stringify(ask)}\n\n`)
    } else if (name === 'noise') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"x":"${filler.slice(0, 1_000_000)}`)
    } else if (name === 'refuse') {
      res.writeHead(500, { 'content-type': 'application/json' })
      await writePieces(res, Buffer.from(filler), 100)
      res.end()
    } else if (name === 'retry') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.end('id: 7\nretry: 4294967296000\ndata: \n\n')
    } else answer({ content: [{ type: 'text', text: String(params.arguments?.message ?? name).slice(0, 1000) }] })
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    get sessions() {
      return sessions
    },
    get pending() {
      return openAnswers.size
    },
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
