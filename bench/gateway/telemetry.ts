/**
 * What telemetry costs beside the same calls without any, in one run and in turn: 5 % of the traces and all metrics by
 * OTLP to a receiver, every second, and the same with Prometheus fetching them every second as well; and the most that may
 * be asked for, every trace. Modern era; every answer checked. Processor time is the gateway's own. Of each
 * round the share of the calls without is taken, and of all rounds the median.
 * Usage: telemetry.ts [seconds a measurement]
 */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from '../percentile.ts'
import { load } from './load.ts'
import { cpuSeconds, endParts, type Part, start, tell } from './parts.ts'
import { toolCall } from './requests.ts'

const TURNS = Number(process.argv[2] ?? 5)
/** As many calls for each gateway, until V8 has compiled the hot path. */
const WARM_UP = { workers: 8, seconds: 30, each: TURNS > 1 ? 4_000 : 100 }
/** Of calls a CPU-second: a share of those without telemetry. */
const LEAST = 0.85
const EVERY_MS = 1_000
const local = (script: string) => new URL(script, import.meta.url)

interface Measured {
  readonly name: string
  readonly part: Part
  /** Whether Prometheus fetches its metrics. */
  readonly isScraped: boolean
  /** Calls a CPU-second, of each round. */
  readonly rates: number[]
}

/** Takes what is sent, as fast as that goes. */
async function startReceiver() {
  let taken = 0
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => {
      taken += chunk.length
    })
    request.on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, taken: () => taken, server }
}

const request = (worker: number, count: number) => toolCall('modern', undefined, `b_tool_${count % 20}`, worker, count)

async function turn(one: Measured): Promise<void> {
  const before = await tell(one.part)
  const scraped = one.isScraped ? fetch(`${one.part.adminOrigin}/metrics`).then((answer) => answer.text()) : ''
  const { requests } = await load({ origin: one.part.origin, workers: 8, seconds: EVERY_MS / 1000, request })
  one.rates.push(requests / (cpuSeconds(await tell(one.part)) - cpuSeconds(before)))
  if (one.isScraped && !(await scraped).includes('mcp_server_operation_duration_seconds_count'))
    throw new Error('nothing is fetched')
}

async function measure(directory: string): Promise<void> {
  const backend = await start(local('bare-backend.ts'), 'modern')
  const receiver = await startReceiver()

  async function startGateway(name: string, telemetry?: object): Promise<Measured> {
    const configFile = join(directory, `${name.replaceAll(/\W+/g, '-')}.json`)
    const config = {
      name: 'bench',
      namespace: 'default',
      role: 'gateway',
      incomingAuth: { type: 'anonymous' },
      backends: [{ name: 'b', url: `${backend.origin}/mcp` }],
      ...(telemetry !== undefined && { telemetry }),
    }
    await writeFile(configFile, JSON.stringify(config))
    const part = await start(local('gateway-process.ts'), configFile, '', String(EVERY_MS))
    return { name, part, isScraped: telemetry !== undefined && 'prometheus' in telemetry, rates: [] }
  }
  const sent = (samplingRate: string) => ({
    openTelemetry: {
      enabled: true,
      endpoint: receiver.url,
      insecure: true,
      tracing: { enabled: true, samplingRate },
      metrics: { enabled: true },
    },
  })

  const without = await startGateway('without telemetry')
  const few = await startGateway('5 % of the traces, all metrics', sent('0.05'))
  const scraped = await startGateway('the same, and Prometheus', { ...sent('0.05'), prometheus: { enabled: true } })
  const every = await startGateway('every trace, all metrics', sent('1.0'))
  const all: readonly Measured[] = [without, few, scraped, every]
  for (const { part } of all) await load({ origin: part.origin, ...WARM_UP, request })
  for (let left = TURNS; left > 0; left--) for (const one of all) await turn(one)
  if (receiver.taken() === 0) throw new Error('nothing was sent')
  receiver.server.close()
  receiver.server.closeAllConnections()
  for (const one of all) {
    const share = median(one.rates.map((rate, round) => rate / (without.rates[round] as number)))
    const missed = share < LEAST ? '; missed' : ''
    const asked = one === few || one === scraped ? ` (goal: at least ${LEAST * 100} % of those without${missed})` : ''
    const percent = (share * 100).toFixed(1).padStart(5)
    console.log(
      `${one.name.padEnd(36)} ${median(one.rates).toFixed(0).padStart(6)} calls a CPU-second, ${percent} %${asked}`,
    )
  }
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
try {
  await measure(directory)
} finally {
  endParts()
  await rm(directory, { recursive: true })
}
