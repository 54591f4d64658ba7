/** Runs a gateway as a separate process with a rendered pod's flags and heap, and measures its memory. */
import { fork } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NODE_FLAGS } from '../../../build/node-flags.ts'

export interface AttackedGateway {
  readonly port: number
  /** `http://host:port` */
  readonly origin: string
  /** Highest resident set size in bytes since the start or the last call of `forgetPeak`. */
  peak(): number
  forgetPeak(): void
  /** True while the process runs. */
  readonly alive: boolean
  close(): Promise<void>
}

/** Node's default old generation in a container of 512 MiB (measured in one), the rendered limit. */
const HEAP_MIB = 256

export async function startAttackedGateway(backends: readonly object[], more: object = {}): Promise<AttackedGateway> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-hostile-'))
  const configFile = join(directory, 'gateway.yaml')
  const config = { name: 'hostile', namespace: 'x', role: 'gateway', incomingAuth: { type: 'anonymous' }, backends }
  await writeFile(configFile, JSON.stringify({ ...config, ...more }))
  const script = new URL('../../../bench/gateway/gateway-process.ts', import.meta.url)
  const execArgv = ['--disable-warning=ExperimentalWarning', ...NODE_FLAGS, `--max-old-space-size=${HEAP_MIB}`]
  const child = fork(script, [configFile], { execArgv })
  const { port } = await new Promise<{ port: number }>((resolve, reject) => {
    child.once('message', (message) => resolve(message as { port: number }))
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)))
  })
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    peak: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
    forgetPeak: () => writeFileSync(`/proc/${child.pid}/clear_refs`, '5'),
    get alive() {
      return child.exitCode === null && child.signalCode === null
    },
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.exitCode === null && child.signalCode === null) {
        child.disconnect()
        await ended
      }
      await rm(directory, { recursive: true })
    },
  }
}
