import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, isInitializeRequest, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { freePort } from '../network/free-port.ts'
import { endFileOnError } from '../or-fail.ts'

/** A request that a backend has received. */
export interface SeenRequest {
  readonly method: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface McpTestServer {
  readonly url: string
  readonly port: number
  /** The requests so far; a test may empty the list. */
  readonly seen: SeenRequest[]
  /** Returns the POSTs so far that called this method. */
  calls(method: string): readonly SeenRequest[]
  /** Adds a tool and notifies sessions. */
  addTool(name: string): void
  /** Forgets all sessions, as a restart does. */
  forget(): void
  close(): Promise<void>
}

export interface McpTestServerOptions {
  readonly name?: string
  /** `dual` (default): both eras, the legacy one stateless. `sessions`: only the legacy era, with sessions. */
  readonly mode?: 'dual' | 'sessions'
  readonly port?: number
}

/** A real MCP server on the SDK, with tools that tests need. */
export async function startMcpServer(options: McpTestServerOptions = {}): Promise<McpTestServer> {
  const { name = 'test-server', mode = 'dual' } = options
  const seen: SeenRequest[] = []
  const extra: string[] = []
  const build = () => buildServer(name, extra)
  const servers = new Set<McpServer>()
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const dual = createMcpHandler(build)
  const dualHandler = toNodeHandler(dual)

  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks).toString('utf8')
      seen.push({ method: req.method ?? '', headers: req.headers, body })
      const parsed: unknown = body === '' ? undefined : JSON.parse(body)
      if (mode === 'dual') return dualHandler(req, res, parsed)
      const id = req.headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id) : undefined
      if (known !== undefined) return known.handleRequest(req, res, parsed)
      if (!isInitializeRequest(parsed)) {
        res.writeHead(id === undefined ? 400 : 404, { 'content-type': 'application/json' })
        res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        return
      }
      const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (sessionId) => void sessions.set(sessionId, transport),
      })
      const mcp = build()
      servers.add(mcp)
      transport.onclose = () => {
        servers.delete(mcp)
        if (transport.sessionId !== undefined) sessions.delete(transport.sessionId)
      }
      await mcp.connect(transport)
      await transport.handleRequest(req, res, parsed)
    }),
  )
  // The server may be started again on this port.
  const chosen = options.port ?? (await freePort())
  await new Promise<void>((resolve) => server.listen(chosen, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    seen,
    calls: (method) => seen.filter(({ body }) => body !== '' && JSON.parse(body).method === method),
    addTool(tool) {
      extra.push(tool)
      for (const mcp of servers) register(mcp, tool)
      dual.notify.toolsChanged()
    },
    forget: () => sessions.clear(),
    close: async () => {
      await dual.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })

function register(server: McpServer, name: string): void {
  server.registerTool(name, { description: `added: ${name}` }, async () => text(name))
}

function buildServer(name: string, extra: readonly string[]): McpServer {
  const server = new McpServer(
    { name, version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, logging: {} } },
  )
  server.registerTool(
    'echo',
    {
      description: 'Says it again',
      inputSchema: z.object({ message: z.string() }),
      annotations: { readOnlyHint: true },
    },
    async ({ message }) => text(`${name}: ${message}`),
  )
  server.registerTool('fail', { description: 'Fails as tools do' }, async () => ({
    ...text('it failed'),
    isError: true,
  }))
  server.registerTool('throw', { description: 'Throws' }, async () => {
    throw new Error('thrown')
  })
  server.registerTool(
    'big',
    { description: 'A large text', inputSchema: z.object({ bytes: z.number() }) },
    async ({ bytes }) => text('x'.repeat(bytes)),
  )
  server.registerTool(
    'slow',
    { description: 'Takes its time', inputSchema: z.object({ ms: z.number() }) },
    async ({ ms }) => {
      await new Promise((resolve) => setTimeout(resolve, ms))
      return text('at last')
    },
  )
  server.registerTool(
    'steps',
    { description: 'Reports progress', inputSchema: z.object({ count: z.number() }) },
    async ({ count }, context) => {
      const token = context.mcpReq._meta?.progressToken
      for (let step = 1; step <= count && token !== undefined; step++)
        await context.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken: token, progress: step, total: count },
        })
      return text(`${count} steps`)
    },
  )
  server.registerTool('ask', { description: 'Asks the user' }, async (context) => {
    const { elicitInput } = context.mcpReq
    try {
      await elicitInput({ message: 'your name?', requestedSchema: { type: 'object', properties: {} } })
      return text('somebody answered')
    } catch (error) {
      return text(`nobody answered: ${(error as Error).message}`)
    }
  })
  server.registerTool(
    'region',
    {
      description: 'Has a parameter in a header',
      inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
    },
    async ({ region }) => text(region),
  )
  for (const tool of extra) register(server, tool)
  return server
}
