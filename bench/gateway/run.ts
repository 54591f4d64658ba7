/**
 * Compares the processor time of a relayed call with a direct call and with bare proxies, in one run and in turn.
 * Milliseconds mean something only on an idle machine. Usage: run.ts [seconds a measurement]
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { percentile } from '../percentile.ts'
import { type Bench, runBench } from '../shipped/bench.ts'
import { cpuSeconds } from '../shipped/process.ts'
import { type LoadRequest, type LoadResult, load } from './load.ts'
import { start, tell } from './parts.ts'
import { type Era, openSession, toolCall, toolsList } from './requests.ts'

/** Each in turn, for a second at a time. */
const TURNS = Number(process.argv[2] ?? 5)
/** Until V8 has compiled the hot path for good; before that its compiler takes more than the work itself. */
const WARM_UP = { workers: 16, seconds: 60, each: 5_000 }
const local = (script: string) => new URL(script, import.meta.url)
const eras: readonly Era[] = ['modern', 'legacy']

interface Measured {
  readonly through: string
  readonly part: { readonly pid: number; readonly origin: string }
  readonly build: Build
}

/** Either as fast as answers come, or at a rate. */
interface Shape {
  readonly workers: number
  readonly rate?: number
}

interface Turn extends LoadResult {
  /** Processor time in seconds. */
  readonly cpu: number
  readonly calls: number
}

type Build = (session: string | undefined, worker: number, count: number) => LoadRequest

const formatNumber = (value: number): string => value.toFixed(value < 10 ? 2 : 0).padStart(7)

function formatLine(name: string, turns: readonly Turn[]): string {
  const sum = (of: (turn: Turn) => number) => turns.reduce((total, turn) => total + of(turn), 0)
  const [requests, cpu] = [sum((turn) => turn.requests), sum((turn) => turn.cpu)]
  const latencies = Float64Array.from(turns.flatMap((turn) => [...turn.latencies])).sort()
  return [
    name.padEnd(40),
    `${formatNumber(requests / cpu)} a CPU-second`,
    `${formatNumber((cpu / requests) * 1e6)} µs CPU`,
    `${formatNumber(requests / sum((turn) => turn.seconds))} a second`,
    `p50 ${formatNumber(percentile(latencies, 0.5))} ms`,
    `p99 ${formatNumber(percentile(latencies, 0.99))} ms`,
    `${(sum((turn) => turn.calls) / requests).toFixed(2)} backend calls each`,
  ].join('  ')
}

async function startEra(era: Era, bench: Bench) {
  const backends = [await start(local('bare-backend.ts'), era), await start(local('bare-backend.ts'), era)] as const
  const named = backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` }))
  const { port } = new URL(backends[0].origin)
  const proxies = { hono: await start(local('bare-proxy.ts'), port), node: await start(local('bare-node.ts'), port) }
  return { backends, proxies, gateway: await bench.gateway({ backends: named }) }
}

async function measureEra(bench: Bench, era: Era): Promise<void> {
  const { backends, proxies, gateway } = await startEra(era, bench)
  const direct: Build = (session, worker, count) => toolCall(era, session, `tool_${count % 20}`, worker, count)
  const buildRelayed: Build = (session, worker, count) =>
    toolCall(era, session, `b${(worker + count) % 2}_tool_${count % 20}`, worker, count)
  const list: Build = (session) => toolsList(era, session)

  async function calls(): Promise<number> {
    const reports = await Promise.all(backends.map(tell))
    return reports.reduce((sum, { calls = 0 }) => sum + calls, 0)
  }

  async function runTurn({ part, build }: Measured, { workers, rate }: Shape): Promise<Turn> {
    // The bare proxies know no sessions; neither does the bare backend behind them.
    const sessions = await Promise.all(
      Array.from({ length: workers }, () =>
        era === 'legacy' && part !== proxies.hono && part !== proxies.node
          ? openSession(`${part.origin}/mcp`)
          : undefined,
      ),
    )
    const request = (worker: number, count: number) => build(sessions[worker], worker, count)
    const [before, callsBefore] = [cpuSeconds(part), await calls()]
    const result = await load({
      origin: part.origin,
      workers,
      seconds: 1,
      request,
      ...(rate === undefined ? {} : { rate }),
    })
    const [after, callsAfter] = [cpuSeconds(part), await calls()]
    return { ...result, cpu: after - before, calls: callsAfter - callsBefore }
  }

  async function measure(name: string, shape: Shape, measured: readonly Measured[]): Promise<void> {
    const turns = new Map(measured.map((one) => [one, [] as Turn[]]))
    for (let left = TURNS; left > 0; left--) for (const [one, its] of turns) its.push(await runTurn(one, shape))
    for (const [one, its] of turns) console.log(formatLine(`${era}: ${name}, ${one.through}`, its))
  }

  const [backend] = backends
  const session = era === 'legacy' ? await openSession(`${gateway.origin}/mcp`) : undefined
  for (const { origin } of Object.values(proxies))
    await load({ origin, ...WARM_UP, request: (worker, count) => direct(undefined, worker, count) })
  await load({ origin: gateway.origin, ...WARM_UP, request: (worker, count) => buildRelayed(session, worker, count) })
  const directly: Measured = { through: 'direct', part: backend, build: direct }
  const gatewayCalls: Measured = { through: 'gateway', part: gateway, build: buildRelayed }
  for (const workers of [1, 8, 32])
    await measure(`tools/call ×${workers}`, { workers }, [
      directly,
      { through: 'bare on node:http', part: proxies.node, build: direct },
      { through: 'bare on Hono', part: proxies.hono, build: direct },
      gatewayCalls,
    ])
  await measure('tools/call 2000/s', { workers: 8, rate: 2000 }, [directly, gatewayCalls])
  await measure('tools/list ×8', { workers: 8 }, [{ through: 'gateway', part: gateway, build: list }])
  gateway.end()
  for (const { child } of [...backends, proxies.hono, proxies.node]) child.disconnect()
}

await runBench(async (bench) => {
  for (const era of eras) await measureEra(bench, era)
})

for (const script of ['jwt.ts', 'policies.ts', 'rate-limits.ts', 'telemetry.ts', 'composite.ts'])
  spawnSync(process.execPath, [fileURLToPath(new URL(script, import.meta.url)), ...process.argv.slice(2, 3)], {
    stdio: 'inherit',
  })
// This measures memory, so it runs in its own process after the others.
spawnSync(process.execPath, [fileURLToPath(new URL('sessions.ts', import.meta.url))], { stdio: 'inherit' })
