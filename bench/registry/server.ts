import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Usage } from './serve.ts'

/** A registry under measurement. */
export interface MeasuredRegistry {
  /** Base of the registry `bench`, without a trailing slash. */
  readonly base: string
  /** From the start of the process until every source was synced, in milliseconds. */
  readonly startMs: number
  usage(): Promise<Usage>
  close(): Promise<void>
}

/** Starts a registry `bench` over these registry files, the first the most important, and waits until all are synced. */
export async function startRegistry(catalogs: readonly string[]): Promise<MeasuredRegistry> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
  const names = catalogs.map((_, index) => `source-${index}`)
  await Promise.all(catalogs.map((text, index) => writeFile(join(directory, `${names[index]}.json`), text)))
  const config = {
    sources: names.map((name) => ({ name, file: { path: `${name}.json` } })),
    registries: [{ name: 'bench', sources: names }],
    auth: { mode: 'anonymous' },
  }
  await writeFile(join(directory, 'registry.yaml'), JSON.stringify(config))

  const started = performance.now()
  const child = fork(new URL('./serve.ts', import.meta.url), [
    join(directory, 'registry.yaml'),
    join(directory, 'state'),
  ])
  const { url, adminUrl } = (await answer(child)) as { url: string; adminUrl: string }
  while ((await fetch(`${adminUrl}/readyz`)).status !== 200) await new Promise((resolve) => setTimeout(resolve, 10))
  const startMs = performance.now() - started

  return {
    base: `${url}/registry/bench/v0.1`,
    startMs,
    async usage() {
      child.send('usage')
      return (await answer(child)) as Usage
    },
    async close() {
      child.send('close')
      await once(child, 'exit')
      await rm(directory, { recursive: true })
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
