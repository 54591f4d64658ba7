import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A row of a gate in a test's notation. */
export interface GateRow {
  readonly name: string
  readonly version?: string
  readonly status?: string
  readonly claims?: object
  readonly remotes?: readonly object[]
  readonly packages?: readonly object[]
  readonly kubernetes?: object
}

/** A registry that answers as a test wants, page by page, and supports long polling as a real one does. */
export interface GateRegistry {
  readonly url: string
  readonly port: number
  /** The requests so far. */
  readonly requests: { readonly path: string; readonly headers: IncomingMessage['headers'] }[]
  mode: string
  claims: object
  /** The most rows of a page; by default all rows are on one. */
  pageSize: number
  /** Answers a request itself and returns true, or returns false for the usual answer. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined
  set(rows: readonly GateRow[]): void
  close(): Promise<void>
}

export async function startGateRegistry(rows: readonly GateRow[] = [], port = 0): Promise<GateRegistry> {
  let servers = rows
  let revision = 1
  const waiting = new Set<() => void>()
  const requests: GateRegistry['requests'] = []

  function answer(url: URL, response: ServerResponse): void {
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const end = from + registry.pageSize
    const page = servers.slice(from, end).map((row) => ({
      ...{ version: '1.0.0', status: 'active', claims: {}, remotes: [], packages: [] },
      ...row,
    }))
    const more = end < servers.length ? { nextCursor: String(end) } : {}
    const body = { revision: `r${revision}`, mode: registry.mode, claims: registry.claims, servers: page, ...more }
    response.writeHead(200, { 'content-type': 'application/json', etag: `"r${revision}"` }).end(JSON.stringify(body))
  }

  const server = createServer((request, response) => {
    requests.push({ path: request.url ?? '', headers: request.headers })
    if (registry.intercept?.(request, response)) return
    const url = new URL(request.url ?? '/', 'http://registry')
    if (url.pathname !== '/v1/registries/main/gate') {
      response.writeHead(404).end('{"error":"not_found"}')
      return
    }
    const known = request.headers['if-none-match']
    if (known !== `"r${revision}"`) return answer(url, response)
    const resume = () => {
      clearTimeout(timer)
      waiting.delete(resume)
      if (known === `"r${revision}"`) response.writeHead(304).end()
      else answer(url, response)
    }
    const timer = setTimeout(resume, Number.parseInt(url.searchParams.get('wait') ?? '0', 10) * 1000)
    waiting.add(resume)
    response.on('close', () => {
      clearTimeout(timer)
      waiting.delete(resume)
    })
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const { port: own } = server.address() as AddressInfo
  const registry: GateRegistry = {
    url: `http://127.0.0.1:${own}`,
    port: own,
    requests,
    mode: 'full',
    claims: {},
    pageSize: Number.POSITIVE_INFINITY,
    intercept: undefined,
    set(next) {
      servers = next
      revision++
      for (const go of waiting) go()
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return registry
}
