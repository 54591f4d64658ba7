import { once } from 'node:events'
import { freePort } from '../../test/support/network/free-port.ts'
import type { Shipped } from '../shipped/image.ts'
import { readUsage, startProcess } from '../shipped/process.ts'

export interface Usage {
  readonly cpuMs: number
  readonly residentBytes: number
  /** The highest value; VmHWM in /proc on Linux. */
  readonly peakBytes: number
}

export interface MeasuredRegistry {
  readonly url: string
  /** Milliseconds from the start of the process until every source was synced. */
  readonly startMs: number
  usage(): Usage
  close(): Promise<void>
}

/** A registry that is not up after this time never will be. */
const PATIENCE_MS = 240_000

/** Starts a registry as it is shipped, and waits until all of its sources are synced. */
export async function startRegistry(
  { command }: Shipped,
  configFile: string,
  stateDirectory: string,
): Promise<MeasuredRegistry> {
  const [address, adminAddress] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const started = performance.now()
  const { child, pid } = await startProcess(
    [...command, 'serve', 'registry', '--config', configFile, '--listen', address, '--admin-listen', adminAddress],
    { NODE_ENV: 'production', PORTICO_STATE_DIR: stateDirectory, PORTICO_LOG_LEVEL: 'error' },
  )
  while (!(await isReady(`http://${adminAddress}/readyz`))) {
    if (child.exitCode !== null) throw new Error(`the registry ended with code ${child.exitCode}`)
    if (performance.now() - started > PATIENCE_MS) throw new Error('the registry does not become ready')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const startMs = performance.now() - started

  return {
    url: `http://${address}`,
    startMs,
    usage() {
      const { cpu, resident, peak } = readUsage(pid)
      return { cpuMs: cpu / 1e3, residentBytes: resident, peakBytes: peak }
    },
    async close() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      await exit
    },
  }
}

const isReady = (url: string) =>
  fetch(url).then(
    ({ status }) => status === 200,
    () => false,
  )
