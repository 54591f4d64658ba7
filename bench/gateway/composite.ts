/**
 * Compares a composite tool of five sequential steps with its five calls made directly, in the modern era. Times in
 * milliseconds include the client and the backend. Usage: composite.ts [seconds a measurement]
 */
import { median } from '../percentile.ts'
import { type Bench, runBench } from '../shipped/bench.ts'
import type { Gateway } from '../shipped/gateway.ts'
import { cpuSeconds } from '../shipped/process.ts'
import { type LoadRequest, load } from './load.ts'
import { type Part, start } from './parts.ts'
import { toolCall } from './requests.ts'

const TURNS = Number(process.argv[2] ?? 5)
const STEPS = 5
const WARM_UP = { workers: 8, seconds: 30, each: TURNS > 1 ? 4_000 : 100 }
const MOST = 1.3
const local = (script: string) => new URL(script, import.meta.url)

interface Way {
  readonly name: string
  readonly requests: number
  request(worker: number, count: number): LoadRequest
  runs: number
  cpu: number
  readonly alone: number[]
}

const way = (name: string, requests: number, request: Way['request']): Way => ({
  ...{ name, requests, request, runs: 0, cpu: 0, alone: [] },
})

function startGateway(bench: Bench, backend: Part): Promise<Gateway> {
  const steps = Array.from({ length: STEPS }, (_, index) => ({
    id: `step${index}`,
    type: 'tool',
    tool: `b_tool_${index}`,
    arguments: { message: index === 0 ? '{{.params.message}}' : `{{.steps.step${index - 1}.output.text}}` },
    ...(index === 0 ? {} : { dependsOn: [`step${index - 1}`] }),
  }))
  return bench.gateway({
    backends: [{ name: 'b', url: `${backend.origin}/mcp` }],
    compositeTools: [
      { name: 'five', parameters: { type: 'object', properties: { message: { type: 'string' } } }, steps },
    ],
  })
}

async function runTurn(gateway: Gateway, one: Way): Promise<void> {
  const { origin } = gateway
  const { request } = one
  const before = cpuSeconds(gateway)
  const { requests } = await load({ origin, workers: 8, seconds: 1, request })
  one.cpu += cpuSeconds(gateway) - before
  one.runs += requests / one.requests
  one.alone.push(...(await load({ origin, workers: 1, seconds: 0.5, request })).latencies)
}

async function measure(bench: Bench): Promise<void> {
  const backend = await start(local('bare-backend.ts'), 'modern')
  const gateway = await startGateway(bench, backend)
  const direct = way('five calls', STEPS, (worker, count) =>
    toolCall('modern', undefined, `b_tool_${count % STEPS}`, worker, count),
  )
  const composite = way('one composite tool', 1, (worker, count) =>
    toolCall('modern', undefined, 'five', worker, count),
  )
  const ways = [direct, composite]
  for (const { request, requests } of ways)
    await load({ origin: gateway.origin, ...WARM_UP, each: (WARM_UP.each * requests) / STEPS, request })
  for (let left = TURNS; left > 0; left--) for (const one of ways) await runTurn(gateway, one)
  const computeCpu = ({ cpu, runs }: Way) => (cpu / runs) * 1e6
  const computeTime = ({ alone, requests }: Way) => requests * median(alone)
  for (const one of ways)
    console.log(
      `${one.name.padEnd(20)} ${computeCpu(one).toFixed(0).padStart(6)} µs CPU, alone ${computeTime(one).toFixed(3)} ms`,
    )
  const share = computeCpu(composite) / computeCpu(direct)
  const times = computeTime(composite) / computeTime(direct)
  const missed = share > MOST ? '; missed' : ''
  console.log(`${share.toFixed(2)} times the CPU (goal: at most ${MOST}${missed}), ${times.toFixed(2)} times as long`)
}

await runBench(measure)
