/**
 * Measures sessions of the legacy era: the memory of 10,000 idle ones, fresh and after calls to two backends, the CPU
 * to open one, and the memory after many were opened and closed. Usage: sessions.ts [sessions that are opened and
 * closed, default 100000]
 */
import { Client } from 'undici'
import { type Bench, runBench } from '../shipped/bench.ts'
import { HEAP_TELLER, tellHeap } from '../shipped/heap-teller.ts'
import { cpuSeconds, readUsage } from '../shipped/process.ts'
import { send } from './load.ts'
import { start } from './parts.ts'
import { toolCall } from './requests.ts'

const TURNOVER = Number(process.argv[2] ?? 100_000)
const IDLE = 10_000
const CONNECTIONS = 16
const KIB = 1024
const MIB = KIB * KIB

interface ProcessReport {
  readonly cpu: number
  readonly rss: number
  readonly heap: number
}

const HEADERS = ['content-type', 'application/json', 'accept', 'application/json, text/event-stream']
const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
})

/** Opens a session as clients do, with both messages, and returns its id. */
async function open(client: Client): Promise<string> {
  const { statusCode, headers, body } = await client.request({
    path: '/mcp',
    method: 'POST',
    headers: HEADERS,
    body: INITIALIZE,
  })
  await body.dump()
  const id = headers['mcp-session-id']
  if (statusCode !== 200 || typeof id !== 'string') throw new Error(`no session: ${statusCode}`)
  const initialized = await client.request({
    path: '/mcp',
    method: 'POST',
    headers: [...HEADERS, 'mcp-session-id', id],
    body: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  })
  await initialized.body.dump()
  return id
}

async function close(client: Client, id: string): Promise<void> {
  const { statusCode, body } = await client.request({
    path: '/mcp',
    method: 'DELETE',
    headers: ['mcp-session-id', id],
  })
  await body.dump()
  if (statusCode !== 204) throw new Error(`not closed: ${statusCode}`)
}

await runBench(measureSessions)

async function measureSessions(bench: Bench): Promise<void> {
  const backend = new URL('bare-backend.ts', import.meta.url)
  const backends = [await start(backend, 'legacy'), await start(backend, 'legacy')]
  const gateway = await bench.gateway(
    { backends: backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` })) },
    HEAP_TELLER,
  )
  const clients = Array.from({ length: CONNECTIONS }, () => new Client(gateway.origin))

  async function tell(): Promise<ProcessReport> {
    const heap = await tellHeap(gateway)
    return { cpu: cpuSeconds(gateway), rss: readUsage(gateway.pid).resident, heap }
  }

  /** Runs something this many times, spread over the connections. */
  async function repeat(count: number, run: (client: Client, index: number) => Promise<void>): Promise<void> {
    let next = 0
    await Promise.all(
      clients.map(async (client) => {
        while (next < count) await run(client, next++)
      }),
    )
  }

  /** Does it and tells what it took. */
  async function measure(
    run: () => Promise<void>,
  ): Promise<{ cpuMs: number; before: ProcessReport; after: ProcessReport }> {
    const before = await tell()
    await run()
    // The garbage collection at the next look at the heap is not counted.
    const used = cpuSeconds(gateway)
    return { cpuMs: (used - before.cpu) * 1e3, before, after: await tell() }
  }

  const line = (name: string, text: string) => console.log(`${name.padEnd(44)} ${text}`)
  const memory = ({ heap, rss }: ProcessReport) =>
    `heap ${(heap / MIB).toFixed(1)} MiB   rss ${(rss / MIB).toFixed(0)} MiB`

  try {
    const ids: string[] = []
    const openNext = async (client: Client) => void ids.push(await open(client))
    const closeNext = (client: Client, index: number) => close(client, ids[index] as string)
    const calling = async (client: Client, index: number) => {
      for (const backend of [0, 1])
        await send(client, toolCall('legacy', ids[index], `b${backend}_tool_1`, index, backend))
    }

    // Warm: what the first thousands cost is the compiler's.
    await repeat(5_000, openNext)
    await repeat(5_000, closeNext)
    ids.length = 0

    const opened = await measure(() => repeat(IDLE, openNext))
    const computeHeap = ({ before, after }: typeof opened) => (after.heap - before.heap) / IDLE / KIB
    line('opening a session', `${(opened.cpuMs / IDLE).toFixed(3)} ms CPU`)
    line(`idle session, of ${IDLE}`, `${computeHeap(opened).toFixed(2)} KiB   ${memory(opened.after)}`)

    const called = await measure(() => repeat(IDLE, calling))
    line('first calls to two backends, opening both', `${(called.cpuMs / IDLE).toFixed(3)} ms CPU`)
    const both = (called.after.heap - opened.before.heap) / IDLE / KIB
    line('idle session with both backends open', `${both.toFixed(2)} KiB   ${memory(called.after)}`)
    const again = await measure(() => repeat(IDLE, calling))
    line('later calls to both', `${(again.cpuMs / IDLE).toFixed(3)} ms CPU`)

    const ended = await measure(() => repeat(IDLE, closeNext))
    line(
      'ending a session and both of its backends',
      `${(ended.cpuMs / IDLE).toFixed(3)} ms CPU   ${memory(ended.after)}`,
    )

    const rounds = 4
    for (let round = 1; round <= rounds; round++) {
      const { after } = await measure(() =>
        repeat(TURNOVER / rounds, async (client, index) => {
          const id = await open(client)
          await send(client, toolCall('legacy', id, `b${index % 2}_tool_1`, index, round))
          await close(client, id)
        }),
      )
      line(`after ${(TURNOVER / rounds) * round} sessions opened and closed`, memory(after))
    }
  } finally {
    await Promise.all(clients.map((client) => client.close()))
  }
}
