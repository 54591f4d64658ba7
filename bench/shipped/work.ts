import { Client } from 'undici'
import { type LoadRequest, send } from '../gateway/load.ts'
import { type Era, openSession, toolCall, toolsList } from '../gateway/requests.ts'

/** The work that is measured: calls of tools, lists of tools, sessions from their first to their last request. */
export const KINDS = ['call', 'list', 'session'] as const
export type Kind = (typeof KINDS)[number]

export interface Endpoint {
  readonly origin: string
  /** Absent: /mcp. */
  readonly path?: string | undefined
  readonly era: Era
  /** Returns the tool name for a worker's request. */
  name(worker: number, count: number): string
  readonly tokens: readonly string[]
  /** False for a proxy that passes everything on. */
  readonly hasSessions: boolean
}

/** Ends after this many seconds, or when each worker has done this many. */
interface Extent {
  readonly seconds: number
  readonly each?: number
}

export interface Done {
  readonly requests: number
  readonly seconds: number
  /** Milliseconds of each. */
  readonly latencies: readonly number[]
}

export interface Work {
  /** Does it on all connections at a time, and checks every answer. */
  run(kind: Kind, extent: Extent): Promise<Done>
  openSessions(count: number): Promise<void>
  close(): Promise<void>
}

export async function openWork(endpoint: Endpoint, workers: number): Promise<Work> {
  const { origin, era, tokens, path = '/mcp' } = endpoint
  const url = origin + path
  const clients = Array.from({ length: workers }, () => new Client(origin, { pipelining: 1, keepAliveTimeout: 60_000 }))
  const hasSessions = era === 'legacy' && endpoint.hasSessions
  const sessions = hasSessions
    ? await Promise.all(clients.map((_, worker) => openSession(url, tokens[worker % tokens.length])))
    : []

  const withToken = (request: LoadRequest, worker: number, count: number): LoadRequest => {
    // A session belongs to one caller, so there each worker is one caller.
    const token = tokens[(worker + (hasSessions ? 0 : count * workers)) % tokens.length]
    return token === undefined
      ? request
      : { ...request, headers: [...request.headers, 'authorization', `Bearer ${token}`] }
  }
  const buildCall = (worker: number, count: number, session = sessions[worker]) =>
    withToken(toolCall(era, session, endpoint.name(worker, count), worker, count), worker, count)
  const kinds: Readonly<Record<Kind, (client: Client, worker: number, count: number) => Promise<unknown>>> = {
    call: (client, worker, count) => send(client, buildCall(worker, count), path),
    list: (client, worker, count) => send(client, withToken(toolsList(era, sessions[worker]), worker, count), path),
    session: (client, worker, count) =>
      runSession(client, path, tokens[worker % tokens.length], (session) => buildCall(worker, count, session)),
  }

  return {
    async run(kind, { seconds, each = Number.POSITIVE_INFINITY }) {
      const began = performance.now()
      const latencies: number[] = []
      await Promise.all(
        clients.map(async (client, worker) => {
          let last = began
          for (let count = 0; last - began < seconds * 1000 && count < each; count++) {
            const sent = last
            await kinds[kind](client, worker, count)
            last = performance.now()
            latencies.push(last - sent)
          }
        }),
      )
      return { requests: latencies.length, seconds: (performance.now() - began) / 1000, latencies }
    },
    async openSessions(count) {
      let next = 0
      await Promise.all(
        clients.map(async (_, worker) => {
          while (next++ < count) await openSession(url, tokens[worker % tokens.length])
        }),
      )
    },
    close: async () => void (await Promise.all(clients.map((client) => client.close()))),
  }
}

const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
})

/** Opens a session as clients do, calls a tool in it, and ends it. */
async function runSession(
  client: Client,
  path: string,
  token: string | undefined,
  call: (session: string) => LoadRequest,
) {
  const post = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']
  const authorization = token === undefined ? [] : ['authorization', `Bearer ${token}`]
  const ask = async (method: 'POST' | 'DELETE', headers: readonly string[], body: string | undefined) => {
    const answer = await client.request({
      ...{ path, method },
      headers: [...headers, ...authorization],
      ...(body !== undefined && { body }),
    })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`wrong answer ${answer.statusCode}: ${text.slice(0, 300)}`)
    return { headers: answer.headers, text }
  }
  const opened = await ask('POST', post, INITIALIZE)
  const session = opened.headers['mcp-session-id']
  if (typeof session !== 'string' || !opened.text.includes('protocolVersion')) throw new Error('no session')
  const its = ['mcp-session-id', session, 'mcp-protocol-version', '2025-11-25']
  await ask('POST', [...post, ...its], '{"jsonrpc":"2.0","method":"notifications/initialized"}')
  await send(client, call(session), path)
  await ask('DELETE', its, undefined)
}
