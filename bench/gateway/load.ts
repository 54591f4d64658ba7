import { Client, type Dispatcher } from 'undici'
import { runEvenly } from './metronome.ts'

/** One request of the load. */
export interface LoadRequest {
  readonly headers: readonly string[]
  readonly body: string
  readonly expects: string
}

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  /** Milliseconds, sorted. */
  readonly latencies: Float64Array
}

interface LoadOptions {
  readonly origin: string
  readonly workers: number
  readonly seconds: number
  /** Each worker stops after this many requests. */
  readonly each?: number
  /** Requests per second over all workers; by default as fast as answers come. */
  readonly rate?: number
  request(worker: number, count: number): LoadRequest
}

/**
 * Sends requests on one connection per worker and checks every answer. With a rate, requests are spread evenly over
 * time and connections.
 */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const clients = Array.from({ length: options.workers }, () => new Client(options.origin, { pipelining: 1 }))
  const { rate } = options
  const sent = rate === undefined ? sendOneByOne(options, clients) : sendEvenly(options, clients, rate)
  const { start, latencies } = await sent
  const seconds = (performance.now() - start) / 1000
  await Promise.all(clients.map((client) => client.close()))
  return { requests: latencies.length, seconds, latencies: Float64Array.from(latencies).sort() }
}

interface Sent {
  readonly start: number
  readonly latencies: number[]
}

async function sendOneByOne(options: LoadOptions, clients: readonly Client[]): Promise<Sent> {
  const { seconds, each = Number.POSITIVE_INFINITY, request } = options
  const start = performance.now()
  const until = start + seconds * 1000
  const runs = clients.map(async (client, worker) => {
    const latencies: number[] = []
    for (let count = 0; performance.now() < until && count < each; count++)
      latencies.push(await send(client, request(worker, count)))
    return latencies
  })
  return { start, latencies: (await Promise.all(runs)).flat() }
}

async function sendEvenly(options: LoadOptions, clients: readonly Client[], rate: number): Promise<Sent> {
  const { seconds, request } = options
  const sent: Promise<number>[] = []
  let start = Number.NaN
  await runEvenly({ everyMs: 1000 / rate, count: Math.round(seconds * rate) }, (index) => {
    if (index === 0) start = performance.now()
    const worker = index % clients.length
    sent.push(send(clients[worker] as Client, request(worker, Math.floor(index / clients.length))))
  })
  return { start, latencies: await Promise.all(sent) }
}

/** Returns the milliseconds until the whole answer is there. Rejects an unexpected answer. */
export function send(client: Client, { headers, body, expects }: LoadRequest, path = '/mcp'): Promise<number> {
  return new Promise((resolve, reject) => {
    const start = performance.now()
    const chunks: Buffer[] = []
    let status = 0
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart(_controller, code) {
        status = code
      },
      onResponseData(_controller, chunk) {
        chunks.push(chunk)
      },
      onResponseEnd() {
        const ms = performance.now() - start
        const text = Buffer.concat(chunks).toString()
        if (status !== 200 || !text.includes(expects))
          reject(new Error(`wrong answer ${status}: ${text.slice(0, 300)}`))
        else resolve(ms)
      },
      onResponseError(_controller, error) {
        reject(error)
      },
    }
    client.dispatch({ path, method: 'POST', headers: [...headers], body }, handler)
  })
}
