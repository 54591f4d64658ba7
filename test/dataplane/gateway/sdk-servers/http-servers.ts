import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, isInitializeRequest } from '@modelcontextprotocol/server'
import { endFileOnError } from '../../../support/or-fail.ts'
import { createEventStore } from '../../../support/servers/event-store.ts'
import { buildV1, growV1 } from './v1-server.ts'
import { buildV2, growV2 } from './v2-server.ts'
import type { World } from './world.ts'

export interface SdkServer {
  readonly url: string
  close(): Promise<void>
}

/** `v1`: SDK 1 with sessions; SDK 2: only sessions, both eras with sessions, only the stateless era. */
export const httpShapes = ['v1', 'v2-sessions', 'v2-dual-sessions', 'v2-stateless'] as const
export type HttpShape = (typeof httpShapes)[number]

type Transport = StreamableHTTPServerTransport | NodeStreamableHTTPServerTransport

interface Sessions {
  readonly open: (onOpened: (transport: Transport) => void) => Promise<Transport>
  readonly grow: () => void
  readonly touch: () => void
}

const updated = { uri: 'test://fixed' }
const session = { sessionIdGenerator: randomUUID, eventStore: createEventStore(), retryInterval: 50 }

function sessionsV1(world: World): Sessions {
  const servers = new Set<ReturnType<typeof buildV1>>()
  return {
    async open(onOpened) {
      const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
        ...session,
        onsessioninitialized: () => onOpened(transport),
      })
      const server = buildV1(world)
      servers.add(server)
      server.server.onclose = () => void servers.delete(server)
      await server.connect(transport as never)
      return transport
    },
    grow: () => servers.forEach(growV1),
    touch: () => {
      for (const { server } of servers) server.sendResourceUpdated(updated).catch(() => {})
    },
  }
}

function sessionsV2(world: World): Sessions {
  const servers = new Set<ReturnType<typeof buildV2>>()
  return {
    async open(onOpened) {
      const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
        ...session,
        onsessioninitialized: () => onOpened(transport),
      })
      const server = buildV2(world)
      servers.add(server)
      server.server.onclose = () => void servers.delete(server)
      await server.connect(transport)
      return transport
    },
    grow: () => servers.forEach(growV2),
    touch: () => {
      for (const { server } of servers) server.sendResourceUpdated(updated).catch(() => {})
    },
  }
}

/** Serves an SDK's server over HTTP in the given shape, as the SDK's documentation describes. */
export async function startSdkServer(shape: HttpShape): Promise<SdkServer> {
  const world: World = { grown: false, began: 0, cancelled: 0, grow() {}, touch() {} }
  const hasSessions = shape !== 'v2-stateless'
  const sessions = shape === 'v1' ? sessionsV1(world) : sessionsV2(world)
  const known = new Map<string, Transport>()
  const handler = createMcpHandler(() => buildV2(world), { legacy: 'reject' })
  const serveStateless = toNodeHandler(handler)
  world.grow = () => {
    world.grown = true
    sessions.grow()
    handler.notify.toolsChanged()
    handler.notify.promptsChanged()
    handler.notify.resourcesChanged()
  }
  world.touch = () => {
    sessions.touch()
    handler.notify.resourceUpdated(updated.uri)
  }
  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const message: unknown = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString())
      const id = req.headers['mcp-session-id']
      if (hasSessions && isInitializeRequest(message)) {
        const transport = await sessions.open((opened) => known.set(opened.sessionId as string, opened))
        return transport.handleRequest(req, res, message)
      }
      const transport = typeof id === 'string' ? known.get(id) : undefined
      if (transport !== undefined) return transport.handleRequest(req, res, message)
      if (shape !== 'v1' && shape !== 'v2-sessions') return serveStateless(req, res, message)
      res.writeHead(id === undefined ? 400 : 404, { 'content-type': 'application/json' })
      res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session"}}')
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      await handler.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
