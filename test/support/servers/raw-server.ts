import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { freePort } from '../network/free-port.ts'
import { endFileOnError } from '../or-fail.ts'

/** A request that a hand-written backend has received. */
export interface RawRequest {
  readonly method: string
  /** The path with its query. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: string
  /** The parsed body, if there is one. */
  readonly message: {
    readonly id?: unknown
    readonly method?: string
    readonly params?: Record<string, unknown>
    readonly result?: unknown
    readonly error?: { readonly code: number }
  }
}

/** Bytes of a JSON answer, or a function that writes the answer. */
export type RawAnswer = string | undefined

export interface RawServer {
  readonly url: string
  readonly port: number
  readonly seen: RawRequest[]
  calls(method: string): readonly RawRequest[]
  /** Stops answering pings in the session of this request. */
  forget(request: RawRequest): void
  close(): Promise<void>
}

export interface RawServerOptions {
  readonly era: 'modern' | 'legacy' | 'both'
  /** JSON text of the tools. */
  readonly tools?: readonly string[]
  /** Answers a call; a string is sent as the whole JSON body. */
  call(request: RawRequest, res: ServerResponse): RawAnswer
  /** Answers any request before the usual handler; returns true if it has. */
  before?(request: RawRequest, res: ServerResponse): boolean | Promise<boolean>
  readonly port?: number
  /** Address to listen at; default 127.0.0.1. */
  readonly host?: string
}

/** A backend whose answers a test writes byte for byte. */
export async function startRawServer(options: RawServerOptions): Promise<RawServer> {
  const { host = '127.0.0.1' } = options
  const seen: RawRequest[] = []
  let sessions = 0
  const forgotten = new Set<unknown>()
  const server = createServer(
    endFileOnError(async (req: IncomingMessage, res: ServerResponse) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks).toString('utf8')
      const message = body === '' ? {} : JSON.parse(body)
      const request = {
        method: req.method ?? '',
        path: req.url ?? '',
        headers: req.headers,
        rawHeaders: req.rawHeaders,
        body,
        message,
      }
      seen.push(request)
      if (await options.before?.(request, res)) return
      if (req.method !== 'POST') {
        res.writeHead(req.method === 'DELETE' ? 204 : 405).end()
        return
      }
      const json = (text: string | undefined, headers: Record<string, string> = {}) => {
        if (text === undefined || res.headersSent) return
        res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text)
      }
      const id = JSON.stringify(message.id)
      switch (message.method) {
        case 'server/discover':
          if (options.era === 'legacy') {
            res.writeHead(400, { 'content-type': 'application/json' })
            res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}')
          } else
            json(
              `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`,
            )
          break
        case 'initialize':
          if (options.era === 'modern') {
            res.writeHead(400, { 'content-type': 'application/json' })
            res.end(
              `{"jsonrpc":"2.0","id":${id},"error":{"code":-32022,"message":"Unsupported","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`,
            )
            break
          }
          json(
            `{"jsonrpc":"2.0","id":${id},"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`,
            { 'mcp-session-id': `raw-session-${++sessions}` },
          )
          break
        case 'tools/list':
          json(
            `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete","tools":[${(options.tools ?? [tool('t')]).join(',')}]}}`,
          )
          break
        case 'tools/call':
          json(options.call(request, res))
          break
        default:
          res.writeHead(forgotten.has(req.headers['mcp-session-id']) ? 404 : 202).end()
      }
    }),
  )
  // The server may be started again on this port.
  const chosen = options.port ?? (await freePort())
  await new Promise<void>((resolve) => server.listen(chosen, host, resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${host}:${port}/mcp`,
    port,
    seen,
    forget: ({ headers }) => void forgotten.add(headers['mcp-session-id']),
    calls: (method) => seen.filter(({ message }) => message.method === method),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Returns the JSON text of a tool with this name. */
export const tool = (name: string, more = ''): string =>
  `{"name":${JSON.stringify(name)},"inputSchema":{"type":"object"}${more === '' ? '' : `,${more}`}}`

/** Returns the JSON text of an answer to this request. */
export const answer = (request: RawRequest, result: string): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(request.message.id)},"result":${result}}`

export const OK_RESULT = '{"content":[{"type":"text","text":"ok"}]}'
