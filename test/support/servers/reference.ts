import { randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, createRequestStateCodec, isInitializeRequest, McpServer } from '@modelcontextprotocol/server'
import { endFileOnError } from '../or-fail.ts'
import { createEventStore } from './event-store.ts'
import { registerAsking } from './reference-asking.ts'
import { registerContent, registerExtraPrompt, registerExtraTool } from './reference-content.ts'

export interface ReferenceServer {
  readonly url: string
  close(): Promise<void>
}

/** Changes of a reference server for all of its clients: one tool and one prompt are added and removed. */
export interface Changes {
  readonly extra: { tool: boolean; prompt: boolean }
  tools(): void
  prompts(): void
}

interface Registered {
  remove(): void
}

/** `sessions`: only the legacy era, like a backend that has not been upgraded. */
export type ReferenceEras = 'both' | 'sessions'

/**
 * The reference for the conformance suite: an MCP server on the SDK with everything that the suite needs, in both eras,
 * the legacy one with sessions.
 */
export async function startReference(eras: ReferenceEras = 'both'): Promise<ReferenceServer> {
  const state = createRequestStateCodec<string>({ key: randomBytes(32) })
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const servers = new Set<McpServer>()
  const tools = new WeakMap<McpServer, Registered>()
  const prompts = new WeakMap<McpServer, Registered>()
  /** The SDK notifies each session. */
  const change = (
    of: WeakMap<McpServer, Registered>,
    isThere: boolean,
    register: (server: McpServer) => Registered,
  ) => {
    for (const server of servers) {
      if (isThere) of.set(server, register(server))
      else of.get(server)?.remove()
    }
  }
  const changes: Changes = {
    extra: { tool: false, prompt: false },
    tools() {
      changes.extra.tool = !changes.extra.tool
      modern.notify.toolsChanged()
      change(tools, changes.extra.tool, registerExtraTool)
    },
    prompts() {
      changes.extra.prompt = !changes.extra.prompt
      modern.notify.promptsChanged()
      change(prompts, changes.extra.prompt, registerExtraPrompt)
    },
  }
  const build = () => {
    const server = new McpServer(
      { name: 'reference', version: '1.0.0' },
      {
        capabilities: {
          tools: { listChanged: true },
          prompts: { listChanged: true },
          resources: { subscribe: true, listChanged: true },
          logging: {},
          completions: {},
        },
        requestState: { verify: state.verify },
      },
    )
    registerContent(server, changes)
    registerAsking(server, state)
    if (changes.extra.tool) tools.set(server, registerExtraTool(server))
    if (changes.extra.prompt) prompts.set(server, registerExtraPrompt(server))
    server.server.setRequestHandler('resources/subscribe', () => ({}))
    server.server.setRequestHandler('resources/unsubscribe', () => ({}))
    return server
  }
  const modern = createMcpHandler(build, { legacy: 'reject' })
  const serveModern = toNodeHandler(modern)

  async function open(): Promise<NodeStreamableHTTPServerTransport> {
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: createEventStore(),
      retryInterval: 500,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    })
    const server = build()
    servers.add(server)
    transport.onclose = () => {
      servers.delete(server)
      if (transport.sessionId !== undefined) sessions.delete(transport.sessionId)
    }
    await server.connect(transport)
    return transport
  }

  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      if (!isLocal(req.headers.host) || (req.headers.origin !== undefined && !isLocal(readHost(req.headers.origin)))) {
        res.writeHead(403).end()
        return
      }
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks).toString('utf8')
      const message: unknown = body === '' ? undefined : JSON.parse(body)
      const id = req.headers['mcp-session-id']
      if (isInitializeRequest(message)) return (await open()).handleRequest(req, res, message)
      if (typeof id === 'string') {
        const session = sessions.get(id)
        if (session !== undefined) return session.handleRequest(req, res, message)
        res.writeHead(404, { 'content-type': 'application/json' })
        res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        return
      }
      if (eras === 'both' && req.method === 'POST') return serveModern(req, res, message)
      res.writeHead(400, { 'content-type': 'application/json' })
      res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}')
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://localhost:${port}/mcp`,
    async close() {
      await modern.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const isLocal = (host: string | undefined): boolean => /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(host ?? '')

function readHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
