import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Usage } from './serve.ts'

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

/** Starts a registry with this configuration file and waits until all of its sources are synced. */
export async function startRegistry(configFile: string, stateDirectory: string): Promise<MeasuredRegistry> {
  const started = performance.now()
  const child = fork(new URL('./serve.ts', import.meta.url), [configFile, stateDirectory])
  // Ends with its parent, however that ends.
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const { url, adminUrl } = (await answer(child)) as { url: string; adminUrl: string }
  while ((await fetch(`${adminUrl}/readyz`)).status !== 200) {
    if (performance.now() - started > PATIENCE_MS)
      throw new Error(`not ready: ${await (await fetch(`${adminUrl}/status`)).text()}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const startMs = performance.now() - started

  return {
    url,
    startMs,
    async usage() {
      child.send('usage')
      return (await answer(child)) as Usage
    },
    async close() {
      child.send('close')
      await once(child, 'exit')
      process.off('exit', end)
    },
  }
}

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
