/**
 * How much processor time a relayed call takes, beside the same call made directly and through the least that proxies
 * do, on Hono and without it, in one run. Two backends of 20 tools each, distinct arguments, every answer checked. Processor time is the
 * process's own, so that other load on the machine changes little; what is measured in milliseconds is worth something
 * on an idle machine alone. Usage: run.ts [seconds a measurement]
 */
import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from '../../image/node-flags.ts'
import { type LoadRequest, load, percentile } from './load.ts'
import { type Era, openSession, toolCall, toolsList } from './requests.ts'

const SECONDS = Number(process.argv[2] ?? 3)
/** Until V8 has compiled the hot path for good; before that its compiler takes more than the work itself. */
const WARM_UP = { workers: 16, seconds: 60, each: 5_000 }
const eras: readonly Era[] = ['modern', 'legacy']

/** A process of the set-up. */
interface Part {
  readonly child: ChildProcess
  readonly origin: string
}

interface Told {
  readonly cpu: { readonly user: number; readonly system: number }
  readonly calls?: number
}

type Build = (session: string | undefined, worker: number, count: number) => LoadRequest

const running: ChildProcess[] = []

async function start(script: string, ...args: string[]): Promise<Part> {
  const child = fork(new URL(script, import.meta.url), args, { stdio: 'inherit', execArgv: [...NODE_FLAGS] })
  running.push(child)
  const { port } = await new Promise<{ port: number }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { port: number }))
    child.once('exit', () => reject(new Error(`${script} did not start`)))
  })
  return { child, origin: `http://127.0.0.1:${port}` }
}

function ask({ child }: Part): Promise<Told> {
  return new Promise((resolve) => {
    child.once('message', (message) => resolve(message as Told))
    child.send('tell')
  })
}

const cpuSeconds = ({ cpu }: Told): number => (cpu.user + cpu.system) / 1e6

const shown = (value: number): string => value.toFixed(value < 10 ? 2 : 0).padStart(7)

/** Everything of one era: its backends, the gateway over them, bare proxies before the first. */
async function startEra(era: Era, directory: string) {
  const backends = [await start('bare-backend.ts', era), await start('bare-backend.ts', era)]
  const configFile = join(directory, `${era}.yaml`)
  const config = {
    name: 'bench',
    namespace: 'default',
    role: 'gateway',
    incomingAuth: { type: 'anonymous' },
    backends: backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` })),
  }
  await writeFile(configFile, JSON.stringify(config))
  const { port } = new URL(backends[0]?.origin as string)
  const proxies = { hono: await start('bare-proxy.ts', port), node: await start('bare-node.ts', port) }
  return { backends, proxies, gateway: await start('gateway-process.ts', configFile) }
}

async function measureEra(era: Era, directory: string): Promise<void> {
  const { backends, proxies, gateway } = await startEra(era, directory)
  const direct: Build = (session, worker, count) => toolCall(era, session, `tool_${count % 20}`, worker, count)
  const relayed: Build = (session, worker, count) =>
    toolCall(era, session, `b${(worker + count) % 2}_tool_${count % 20}`, worker, count)
  const list: Build = (session) => toolsList(era, session)

  async function calls(): Promise<number> {
    const told = await Promise.all(backends.map(ask))
    return told.reduce((sum, { calls = 0 }) => sum + calls, 0)
  }

  async function measure(name: string, part: Part, workers: number, build: Build, rate?: number) {
    // The bare proxies know no sessions; neither does the bare backend behind them.
    const sessions = await Promise.all(
      Array.from({ length: workers }, () =>
        era === 'legacy' && !Object.values(proxies).includes(part) ? openSession(`${part.origin}/mcp`) : undefined,
      ),
    )
    const request = (worker: number, count: number) => build(sessions[worker], worker, count)
    const [before, callsBefore] = [await ask(part), await calls()]
    const result = await load({
      origin: part.origin,
      workers,
      seconds: SECONDS,
      request,
      ...(rate === undefined ? {} : { rate }),
    })
    const [after, callsAfter] = [await ask(part), await calls()]
    const cpu = cpuSeconds(after) - cpuSeconds(before)
    console.log(
      [
        name.padEnd(36),
        `${shown(result.requests / cpu)} a CPU-second`,
        `${shown((cpu / result.requests) * 1e6)} µs CPU`,
        `${shown(result.requests / result.seconds)} a second`,
        `p50 ${shown(percentile(result.latencies, 0.5))} ms`,
        `p99 ${shown(percentile(result.latencies, 0.99))} ms`,
        `${((callsAfter - callsBefore) / result.requests).toFixed(2)} backend calls each`,
      ].join('  '),
    )
  }

  const backend = backends[0] as Part
  const session = era === 'legacy' ? await openSession(`${gateway.origin}/mcp`) : undefined
  for (const { origin } of Object.values(proxies))
    await load({ origin, ...WARM_UP, request: (worker, count) => direct(undefined, worker, count) })
  await load({ origin: gateway.origin, ...WARM_UP, request: (worker, count) => relayed(session, worker, count) })
  for (const workers of [1, 8, 32]) {
    await measure(`${era}: tools/call ×${workers}, direct`, backend, workers, direct)
    await measure(`${era}: tools/call ×${workers}, bare on node:http`, proxies.node, workers, direct)
    await measure(`${era}: tools/call ×${workers}, bare on Hono`, proxies.hono, workers, direct)
    await measure(`${era}: tools/call ×${workers}, gateway`, gateway, workers, relayed)
  }
  await measure(`${era}: tools/call 2000/s, direct`, backend, 8, direct, 2000)
  await measure(`${era}: tools/call 2000/s, gateway`, gateway, 8, relayed, 2000)
  await measure(`${era}: tools/list ×8, gateway`, gateway, 8, list)
  for (const { child } of [...backends, proxies.hono, proxies.node, gateway]) child.disconnect()
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
try {
  for (const era of eras) await measureEra(era, directory)
} finally {
  for (const child of running) if (child.connected) child.disconnect()
  await rm(directory, { recursive: true })
}

// In a process of its own, and after the others: what is measured here is memory.
spawnSync(process.execPath, [fileURLToPath(new URL('sessions.ts', import.meta.url))], { stdio: 'inherit' })
