/** Stores the duration and outcome of the last run of each test file on this machine. */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cacheFolder } from '../cache.ts'
import { withImports } from '../imports.ts'
import type { Need } from '../need.ts'

const ROOT = join(import.meta.dirname, '../../..')

export interface LastRun {
  readonly seconds: number
  /** CPU seconds; absent if unknown. */
  readonly cpu?: number
  readonly hasFailed: boolean
}

/** Keyed by paths of test files from the root of a checkout, so that all checkouts share them. */
export type LastRuns = Readonly<Record<string, LastRun>>

const file = () => join(cacheFolder(), 'durations.json')

/** Reads the durations; empty if there is no file, or it can't be read. */
export function readLastRuns(): LastRuns {
  try {
    return JSON.parse(readFileSync(file(), 'utf8')) as LastRuns
  } catch {
    return {}
  }
}

/** Writes the durations, and keeps those that other runs have written meanwhile. */
export function keepLastRuns(runs: LastRuns): void {
  mkdirSync(dirname(file()), { recursive: true })
  const draft = `${file()}-${process.pid}`
  writeFileSync(draft, JSON.stringify({ ...readLastRuns(), ...runs }))
  renameSync(draft, file())
}

/** A file that imports this starts a control plane. */
const CONTROL_PLANE = 'test/cluster/support/control-plane.ts'

/**
 * Expected seconds of a file that has never run here. Long files have many tests, some of them in files beside it. On a
 * control plane, which starts in 20 seconds, tests mostly wait.
 */
export function guessSeconds(path: string, needs: readonly Need[]): number {
  const imported = withImports([path])
  const [own = path, ...others] = imported
  const parts = others.filter((file) => file.startsWith(`${dirname(own)}/`) && !file.includes('/support/'))
  const size = [own, ...parts].reduce((sum, file) => sum + statSync(join(ROOT, file)).size, 0)
  return needs.length + (imported.has(CONTROL_PLANE) ? 20 + size / 300 : size / 2_000)
}
