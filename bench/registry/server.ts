import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { NODE_FLAGS } from '../../image/node-flags.ts'
import { freePort } from '../../test/support/network/free-port.ts'

export interface Usage {
  /** Processor time of all threads, in milliseconds. */
  readonly cpuMs: number
  readonly residentBytes: number
  /** The most it ever was; on Linux what /proc calls VmHWM. */
  readonly peakBytes: number
}

/** A registry under measurement. */
export interface MeasuredRegistry {
  readonly url: string
  /** From the start of the process until every source was synced, in milliseconds. */
  readonly startMs: number
  usage(): Promise<Usage>
  close(): Promise<void>
}

/** A registry that does not come up in this time never will. */
const PATIENCE_MS = 240_000

/** Loaded beside what is measured: tells its parent what it has used, when asked. Threads load it too, and have none. */
const TELLER = `data:text/javascript,${encodeURIComponent(`
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send({
      cpuMs: (user + system) / 1000,
      residentBytes: process.memoryUsage.rss(),
      peakBytes: process.resourceUsage().maxRSS * 1024,
    })
  })
  process.channel?.unref()`)}`

/**
 * Starts a registry with this configuration file and waits until all of its sources are synced. `entry` is the bundled
 * command.
 */
export async function startRegistry(
  entry: string,
  configFile: string,
  stateDirectory: string,
): Promise<MeasuredRegistry> {
  const [address, adminAddress] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const started = performance.now()
  const child = fork(
    entry,
    ['serve', 'registry', '--config', configFile, '--listen', address, '--admin-listen', adminAddress],
    {
      env: { PORTICO_STATE_DIR: stateDirectory, PORTICO_LOG_LEVEL: 'error' },
      execArgv: [
        ...NODE_FLAGS,
        '--import',
        TELLER,
        '--disable-warning=ExperimentalWarning',
        '--disable-warning=DEP0040',
      ],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    },
  )
  // Ends with its parent, however that ends.
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  while (!(await isReady(`http://${adminAddress}/readyz`))) {
    if (child.exitCode !== null) throw new Error(`the registry ended with code ${child.exitCode}`)
    if (performance.now() - started > PATIENCE_MS) throw new Error('the registry does not become ready')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const startMs = performance.now() - started

  return {
    url: `http://${address}`,
    startMs,
    async usage() {
      child.send('usage')
      return (await answer(child)) as Usage
    },
    async close() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      await exit
      process.off('exit', end)
    },
  }
}

const isReady = (url: string) =>
  fetch(url).then(
    ({ status }) => status === 200,
    () => false,
  )

/** What the child sends next; fails when it ends instead. */
async function answer(child: ChildProcess): Promise<unknown> {
  const ending = new AbortController()
  try {
    return await Promise.race([
      once(child, 'message', { signal: ending.signal }).then(([message]) => message),
      once(child, 'exit', { signal: ending.signal }).then(([code]) => {
        throw new Error(`the registry ended with code ${code}`)
      }),
    ])
  } finally {
    ending.abort()
  }
}
