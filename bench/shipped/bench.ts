import { mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { endParts } from '../gateway/parts.ts'
import { type Gateway, startGateway } from './gateway.ts'
import { buildShipped, type Shipped } from './image.ts'
import { endProcesses } from './process.ts'

export const THIS_CHECKOUT = resolve(import.meta.dirname, '../..')

export interface Bench {
  readonly directory: string
  readonly shipped: Shipped
  gateway(config: object, env?: Readonly<Record<string, string>>): Promise<Gateway>
}

/**
 * Makes sure that results can be written to this file, before they are measured for many minutes: creates its folder
 * and, if it is missing, the file. Throws if that can't be done.
 */
export function prepareResults(file: string | undefined): void {
  if (file === undefined) return
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, '', { flag: 'a' })
}

/** Runs a benchmark, and ends all that it has started. */
export async function runBench(measure: (bench: Bench) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-bench-'))
  let shipped: Shipped | undefined
  try {
    const built = (shipped = await buildShipped(THIS_CHECKOUT))
    await measure({ directory, shipped: built, gateway: (config, env) => startGateway(built, directory, config, env) })
  } finally {
    endProcesses()
    endParts()
    await shipped?.remove()
    await rm(directory, { recursive: true, force: true })
  }
}
