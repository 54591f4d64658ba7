import { Client, type Dispatcher } from 'undici'

/** What one request looks like. */
export interface LoadRequest {
  readonly headers: readonly string[]
  readonly body: string
  /** What the answer must hold; empty where any answer will do. */
  readonly expects: string
}

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  /** Milliseconds, sorted. */
  readonly latencies: Float64Array
}

export interface LoadOptions {
  readonly origin: string
  readonly workers: number
  readonly seconds: number
  /** Ends sooner, when each worker has sent so many. */
  readonly each?: number
  /** Requests per second over all workers; absent: as fast as answers come. */
  readonly rate?: number
  request(worker: number, count: number): LoadRequest
}

/** Sends requests one after another on as many connections as there are workers, and checks every answer. */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const start = performance.now()
  const until = start + options.seconds * 1000
  const runs = await Promise.all(Array.from({ length: options.workers }, (_, worker) => work(options, worker, until)))
  const latencies = Float64Array.from(runs.flat()).sort()
  return { requests: latencies.length, seconds: (performance.now() - start) / 1000, latencies }
}

async function work(
  { origin, workers, rate, each = Number.POSITIVE_INFINITY, request }: LoadOptions,
  worker: number,
  until: number,
): Promise<number[]> {
  const client = new Client(origin, { pipelining: 1 })
  const latencies: number[] = []
  const every = rate === undefined ? 0 : (workers / rate) * 1000
  let next = performance.now() + (every * worker) / workers
  for (let count = 0; performance.now() < until && count < each; count++) {
    if (every > 0) {
      const wait = next - performance.now()
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
      next += every
    }
    latencies.push(await send(client, request(worker, count)))
  }
  await client.close()
  return latencies
}

/** Milliseconds until the whole answer is there. Rejects where it is not the one that was expected. */
export function send(client: Client, { headers, body, expects }: LoadRequest): Promise<number> {
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
    client.dispatch({ path: '/mcp', method: 'POST', headers: [...headers], body }, handler)
  })
}

export const percentile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
