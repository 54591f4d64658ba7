/**
 * How much CPU a relayed call takes, beside the same call made directly, in one run. Two backends of 20 tools each,
 * distinct arguments, every answer checked. CPU time is the gateway process's own, so that other load on the machine
 * changes little. Usage: run.ts [seconds a measurement]
 */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LoadRequest, load, percentile } from './load.ts'
import { type Era, openSession, toolCall, toolsList } from './requests.ts'

const SECONDS = Number(process.argv[2] ?? 4)
const eras: readonly Era[] = ['modern', 'legacy']

interface Told {
  readonly cpu: { readonly user: number; readonly system: number }
  readonly calls: number
  readonly rss: number
}

const spawned: ChildProcess[] = []

async function start(script: string, ...args: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(new URL(script, import.meta.url), args, { stdio: 'inherit', execArgv: [] })
  spawned.push(child)
  const { port } = await new Promise<{ port: number }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { port: number }))
    child.once('exit', () => reject(new Error(`${script} did not start`)))
  })
  return { child, port }
}

function ask(child: ChildProcess): Promise<Told> {
  return new Promise((resolve) => {
    child.once('message', (message) => resolve(message as Told))
    child.send('tell')
  })
}

const cpuSeconds = ({ cpu }: Told): number => (cpu.user + cpu.system) / 1e6

function row(name: string, values: Record<string, number | string>): void {
  const cells = Object.entries(values).map(
    ([key, value]) => `${key} ${typeof value === 'number' ? value.toFixed(value < 10 ? 2 : 0) : value}`,
  )
  console.log(`${name.padEnd(34)} ${cells.join('   ')}`)
}

async function measureEra(era: Era, directory: string): Promise<void> {
  const backends = [await start('bare-backend.ts', era), await start('bare-backend.ts', era)]
  const configFile = join(directory, `${era}.yaml`)
  await writeFile(
    configFile,
    JSON.stringify({
      name: 'bench',
      namespace: 'default',
      role: 'gateway',
      incomingAuth: { type: 'anonymous' },
      backends: backends.map(({ port }, index) => ({ name: `b${index}`, url: `http://127.0.0.1:${port}/mcp` })),
    }),
  )
  const gateway = await start('gateway-process.ts', configFile)
  const origins = { direct: `http://127.0.0.1:${backends[0]?.port}`, gateway: `http://127.0.0.1:${gateway.port}` }
  const sessionsOf = (origin: string, workers: number) =>
    Promise.all(
      Array.from({ length: workers }, () =>
        era === 'legacy' ? openSession(`${origin}/mcp`) : Promise.resolve(undefined),
      ),
    )
  const prefixed = (worker: number, count: number) => `b${(worker + count) % 2}_tool_${count % 20}`
  const plain = (_worker: number, count: number) => `tool_${count % 20}`

  async function measure(
    name: string,
    origin: string,
    workers: number,
    build: (session: string | undefined, worker: number, count: number) => LoadRequest,
    options: { seconds?: number; rate?: number; quiet?: boolean } = {},
  ) {
    const sessions = await sessionsOf(origin, workers)
    const request = (worker: number, count: number) => build(sessions[worker], worker, count)
    const counted = async () =>
      (await Promise.all(backends.map(({ child }) => ask(child)))).reduce((sum, { calls }) => sum + calls, 0)
    const before = await ask(gateway.child)
    const callsBefore = await counted()
    const result = await load({
      origin,
      workers,
      seconds: options.seconds ?? SECONDS,
      request,
      ...(options.rate ? { rate: options.rate } : {}),
    })
    const after = await ask(gateway.child)
    const calls = (await counted()) - callsBefore
    const cpu = cpuSeconds(after) - cpuSeconds(before)
    if (options.quiet) return
    row(name, {
      'req/s': result.requests / result.seconds,
      ...(origin === origins.gateway
        ? { 'per CPU-second': result.requests / cpu, 'µs CPU': (cpu / result.requests) * 1e6 }
        : {}),
      'p50 ms': percentile(result.latencies, 0.5),
      'p99 ms': percentile(result.latencies, 0.99),
      'backend requests a call': calls / result.requests,
    })
  }

  const callGateway = (session: string | undefined, worker: number, count: number) =>
    toolCall(era, session, prefixed(worker, count), worker, count)
  const callDirect = (session: string | undefined, worker: number, count: number) =>
    toolCall(era, session, plain(worker, count), worker, count)
  await measure('warm-up', origins.gateway, 8, callGateway, { seconds: 2, quiet: true })
  for (const workers of [1, 8, 32]) {
    await measure(`${era} tools/call direct ×${workers}`, origins.direct, workers, callDirect)
    await measure(`${era} tools/call gateway ×${workers}`, origins.gateway, workers, callGateway)
  }
  await measure(`${era} tools/call direct 2000/s`, origins.direct, 8, callDirect, { rate: 2000 })
  await measure(`${era} tools/call gateway 2000/s`, origins.gateway, 8, callGateway, { rate: 2000 })
  await measure(`${era} tools/list gateway ×8`, origins.gateway, 8, (session) => toolsList(era, session))
  for (const { child } of [...backends, gateway]) child.disconnect()
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
try {
  for (const era of eras) await measureEra(era, directory)
} finally {
  for (const child of spawned) if (child.connected) child.disconnect()
  await rm(directory, { recursive: true })
}
