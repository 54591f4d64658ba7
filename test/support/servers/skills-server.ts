import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, isInitializeRequest, McpServer } from '@modelcontextprotocol/server'
import { memorySkillFiles, type SkillCatalogOptions, SkillsExtension } from '@modelcontextprotocol/server/ext/skills'
import { endFileOnError } from '../or-fail.ts'

export interface SkillsServerOptions {
  /** The files by path, such as `refunds/SKILL.md`. Call `reload` after a change. */
  readonly files: Record<string, string>
  /** `sessions`: only the legacy era. */
  readonly eras?: 'both' | 'sessions'
  readonly catalog?: SkillCatalogOptions
  readonly port?: number
  /** Adds tools and the like. */
  readonly register?: (server: McpServer) => void
}

/** A request that the server has received. */
interface SeenRequest {
  readonly method: string
  readonly uri: unknown
}

export interface SkillsServer {
  readonly url: string
  readonly port: number
  readonly seen: SeenRequest[]
  /** Reads the files again, and notifies clients if the list has changed. */
  reload(): Promise<void>
  /** Notifies clients with sessions that a resource has changed. */
  update(uri: string): Promise<void>
  close(): Promise<void>
}

/** Returns the text of a SKILL.md. */
export const skillText = (name: string, description = `How to do ${name}.`, body = `Do ${name}.`): string =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}\n`

/** Starts a server of skills as the SDK builds one (`ext/skills`). */
export async function startSkillsServer(options: SkillsServerOptions): Promise<SkillsServer> {
  const { files, eras = 'both', register } = options
  const catalog = await SkillsExtension.load(memorySkillFiles(files), { onWarning: () => {}, ...options.catalog })
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const servers = new Set<McpServer>()
  const seen: SeenRequest[] = []
  const build = () => {
    const server = new McpServer(
      { name: 'skills', version: '1.0.0' },
      { capabilities: { tools: {}, resources: { listChanged: true, subscribe: true } } },
    )
    catalog.attach(server)
    register?.(server)
    server.server.setRequestHandler('resources/subscribe', () => ({}))
    server.server.setRequestHandler('resources/unsubscribe', () => ({}))
    return server
  }
  const modern = createMcpHandler(build, { legacy: 'reject' })
  const serveModern = toNodeHandler(modern)

  async function open(): Promise<NodeStreamableHTTPServerTransport> {
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    })
    transport.onclose = () => {
      if (transport.sessionId !== undefined) sessions.delete(transport.sessionId)
    }
    const server = build()
    servers.add(server)
    await server.connect(transport)
    return transport
  }

  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks).toString('utf8')
      const message = body === '' ? undefined : JSON.parse(body)
      if (message?.method !== undefined) seen.push({ method: message.method, uri: message.params?.uri })
      const id = req.headers['mcp-session-id']
      if (isInitializeRequest(message)) return (await open()).handleRequest(req, res, message)
      const session = typeof id === 'string' ? sessions.get(id) : undefined
      if (session !== undefined) return session.handleRequest(req, res, message)
      if (eras === 'both' && req.method === 'POST' && id === undefined) return serveModern(req, res, message)
      res.writeHead(id === undefined ? 400 : 404, { 'content-type': 'application/json' })
      res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}')
    }),
  )
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    seen,
    async reload() {
      const { listChanged } = await catalog.reload()
      if (listChanged) modern.notify.resourcesChanged()
    },
    async update(uri) {
      await Promise.all([...servers].map(({ server: one }) => one.sendResourceUpdated({ uri })))
    },
    async close() {
      await modern.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
