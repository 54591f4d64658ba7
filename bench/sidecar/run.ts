/**
 * What one idle proxy costs, from the bundle as the image starts it, beside a Node that does nothing: until it is ready, and in
 * memory of its own once it has settled. Goals: ready within 150 ms, 30 MiB. Milliseconds are worth something on an idle
 * machine alone; processor time and memory always.
 * Usage: run.ts [starts]
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { NODE_FLAGS } from '../../image/node-flags.ts'
import { startCodes } from '../../image/start-code.ts'
import { canonicalYaml } from '../../operator/render/object/yaml.ts'
import { median } from '../percentile.ts'

const STARTS = Number(process.argv[2] ?? 5)
const GOALS = { readyMs: 150, mebibytes: 30 }
/** After so long an idle process has given back what its start needed. */
const SETTLED_MS = 3_500
const root = join(import.meta.dirname, '..', '..')
const directory = mkdtempSync(join(tmpdir(), 'portico-bench-'))
const running = new Set<ChildProcess>()

interface Measured {
  readonly ms: number
  readonly cpuMs: number
  readonly mebibytes: number
}

/** Runs Node until it has written `ready`, and looks at it when it has settled. */
async function measure(args: readonly string[], ready: string): Promise<Measured> {
  const started = performance.now()
  const child = spawn(process.execPath, [...NODE_FLAGS, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  await new Promise<void>((resolve, reject) => {
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk
        if (output.includes(ready)) resolve()
      })
    child.once('exit', () => reject(new Error(`it ended before it was ready: ${output}`)))
  })
  const ms = performance.now() - started
  const cpuMs = cpuOf(child)
  await sleep(SETTLED_MS)
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  const mebibytes = Number(/RssAnon:\s+(\d+)/.exec(status)?.[1]) / 1024
  child.removeAllListeners('exit').kill('SIGKILL')
  running.delete(child)
  return { ms, cpuMs, mebibytes }
}

/** Processor time so far; the kernel counts it in hundredths of a second. */
function cpuOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

async function several(name: string, args: readonly string[], ready: string): Promise<Measured> {
  const all: Measured[] = []
  for (let left = STARTS; left > 0; left--) all.push(await measure(args, ready))
  const of = (what: keyof Measured) => median(all.map((one) => one[what]))
  const [ms, cpuMs, mebibytes] = [of('ms'), of('cpuMs'), of('mebibytes')]
  console.log(
    `${name.padEnd(12)} ready after ${ms.toFixed(0)} ms, ${cpuMs} ms of CPU; ${mebibytes.toFixed(1)} MiB of its own`,
  )
  return { ms, cpuMs, mebibytes }
}

try {
  const dist = join(directory, 'dist')
  execFileSync(process.execPath, [join(root, 'bundle.ts'), dist])
  for (const [name, code] of await startCodes(dist)) writeFileSync(join(dist, name), code)
  const config = join(directory, 'gateway.yaml')
  const backends = [{ name: 'b', url: 'http://127.0.0.1:9/mcp' }]
  const incomingAuth = { type: 'anonymous' }
  writeFileSync(config, canonicalYaml({ name: 'p', namespace: 'default', role: 'proxy', incomingAuth, backends }))
  await several('bare Node', ['-e', 'console.log("ready"); setInterval(() => {}, 1000)'], 'ready')
  const listeners = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  const args = [join(dist, 'start.cjs'), 'serve', 'gateway', '--config', config, ...listeners]
  const { ms, mebibytes } = await several('a proxy', args, 'the gateway serves')
  const missed = (value: number, goal: number) => (value > goal ? '; missed' : '')
  console.log(
    `goals: ${GOALS.readyMs} ms${missed(ms, GOALS.readyMs)}, ` +
      `${GOALS.mebibytes} MiB${missed(mebibytes, GOALS.mebibytes)}`,
  )
} finally {
  for (const child of running) child.kill('SIGKILL')
  rmSync(directory, { recursive: true })
}
