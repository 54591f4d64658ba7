import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An HTTP server with a handler that a test chooses. */
export interface Upstream {
  readonly url: string
  readonly requests: { readonly url: URL; readonly headers: IncomingMessage['headers']; readonly at: number }[]
  /** Replaces the handler. */
  answer: (url: URL, response: ServerResponse, request: IncomingMessage) => void
  close(): Promise<void>
}

export async function startUpstream(answer: Upstream['answer']): Promise<Upstream> {
  const requests: Upstream['requests'] = []
  const upstream = { requests, answer } as Upstream
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost')
    requests.push({ url, headers: request.headers, at: Date.now() })
    upstream.answer(url, response, request)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(upstream, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  })
}

export function json(response: ServerResponse, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

const OFFICIAL = 'io.modelcontextprotocol.registry/official'

/** One version in an upstream registry. */
export interface UpstreamEntry {
  readonly server: { readonly name: string; readonly version: string }
  readonly status?: string
  readonly updatedAt?: string
}

/** Answers lists as a registry with API v0.1 does, in pages of two, from the current result of `held`. */
export function serveList(readEntries: () => readonly UpstreamEntry[]): Upstream['answer'] {
  return (url, response) => {
    const since = url.searchParams.get('updated_since')
    const all = readEntries().filter(
      ({ status, updatedAt }) =>
        (since === null || (updatedAt !== undefined && updatedAt > since)) &&
        (status !== 'deleted' || url.searchParams.get('include_deleted') === 'true'),
    )
    const at = Number(url.searchParams.get('cursor') ?? 0)
    const page = all.slice(at, at + 2)
    json(response, {
      servers: page.map(({ server, status = 'active', updatedAt }) => ({
        server,
        ...(updatedAt !== undefined && {
          _meta: { [OFFICIAL]: { status, updatedAt, publishedAt: updatedAt, isLatest: true } },
        }),
      })),
      metadata: { count: page.length, ...(at + 2 < all.length && { nextCursor: String(at + 2) }) },
    })
  }
}
