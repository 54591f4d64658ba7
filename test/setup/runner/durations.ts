/** How long test files took on this machine when they last ran, and how they ended. */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cacheFolder } from '../cache.ts'
import type { Need } from '../need.ts'

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

/** Expected seconds of a file that has never run here. A control plane starts in 20, and long files have many tests. */
export function guessSeconds(path: string, needs: readonly Need[]): number {
  const started = needs.some(({ minutes }) => minutes !== undefined) ? 20 : 0
  return started + needs.length + statSync(path).size / 2_000
}
