import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What is shipped: run from its sources, stripping types alone would take 75 MiB and a second or two. */
export interface Product {
  /** The command, to be run by this Node. */
  readonly entry: string
  remove(): Promise<void>
}

export async function bundleProduct(): Promise<Product> {
  const folder = await mkdtemp(join(tmpdir(), 'portico-bundle-'))
  const script = fileURLToPath(new URL('../../bundle.ts', import.meta.url))
  const { status } = spawnSync(process.execPath, [script, folder], { stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) throw new Error('the bundle could not be made')
  return { entry: join(folder, 'portico.js'), remove: () => rm(folder, { recursive: true }) }
}
