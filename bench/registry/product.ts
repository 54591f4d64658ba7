import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What is shipped: run from its sources, stripping types alone would take 75 MiB and a second or two. */
interface Product {
  /** The command, to be run by this Node. */
  readonly entry: string
  remove(): Promise<void>
}

/** Bundles a checkout of Portico, this one where no other is named. */
export async function bundleProduct(root = fileURLToPath(new URL('../..', import.meta.url))): Promise<Product> {
  const folder = await mkdtemp(join(tmpdir(), 'portico-bundle-'))
  const { status } = spawnSync(process.execPath, [join(root, 'bundle.ts'), folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (status !== 0) throw new Error('the bundle could not be made')
  return { entry: join(folder, 'portico.js'), remove: () => rm(folder, { recursive: true }) }
}
