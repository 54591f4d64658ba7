/** Clients of both eras that keep their connections, as ingresses and load balancers do, and never retry. */
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { BASE_HEADERS, modern, rpc } from './post.ts'

export interface KeptAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A client with one kept-alive connection. */
export class KeptClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  post(body: string, headers: object = {}): Promise<KeptAnswer> {
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', agent: this.#agent, headers: { ...BASE_HEADERS, ...headers } }
      const outgoing = request(this.#url, options, (response) => {
        const { statusCode: status = 0, headers } = response
        text(response).then((body) => resolve({ status, headers, body }), reject)
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}

export const initialize = rpc('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'raw', version: '1' },
})

export type ToolCall = { readonly name: string; readonly arguments: Record<string, unknown> }

/** Makes a call, of the modern era or in a session. If the session's replica is gone (404), opens a new session. */
export async function visit(client: KeptClient, isModern: boolean, call: ToolCall): Promise<KeptAnswer> {
  if (isModern) {
    const { body, headers } = modern('tools/call', call)
    return client.post(body, headers)
  }
  const opened = await client.post(initialize)
  const session = opened.headers['mcp-session-id']
  if (typeof session !== 'string') return opened
  const headers = { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' }
  const answered = await client.post(rpc('tools/call', call), headers)
  return answered.status === 404 ? visit(client, isModern, call) : answered
}

interface Crowd {
  readonly url: string
  readonly clients: number
  /** Milliseconds between two visits of a client. */
  readonly pause: number
  /** Every fifth client makes the slow call. */
  readonly call: (slow: boolean) => ToolCall
  readonly isAnswer: (body: string) => boolean
}

/** Runs clients, every second one of the modern era. The returned function ends them and returns counts and losses. */
export function keepAsking({ url, clients, pause, call, isAnswer }: Crowd) {
  const over = new AbortController()
  let visits = 0
  const lost: string[] = []
  const asking = Array.from({ length: clients }, async (_, at) => {
    const client = new KeptClient(url)
    while (!over.signal.aborted) {
      const { status, body } = await visit(client, at % 2 === 0, call(at % 5 === 0)).catch((error) => ({
        status: 0,
        body: String(error),
      }))
      visits++
      if (status !== 200 || !isAnswer(body)) lost.push(`client ${at}: ${status} ${body}`)
      await delay(pause + at * 5)
    }
    client.close()
  })
  return async () => {
    over.abort()
    await Promise.all(asking)
    return { visits, lost }
  }
}
