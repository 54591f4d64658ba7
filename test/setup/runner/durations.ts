/** How long test files took and how they ended when they last ran on this machine. */
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cacheFolder } from '../cache.ts'
import type { Need } from '../need.ts'

export interface LastRun {
  readonly seconds: number
  /** CPU seconds; absent where they are not known. */
  readonly cpu?: number
  readonly hasFailed: boolean
}

/** By the paths of test files from the root of a checkout: all checkouts share them. */
export type LastRuns = Readonly<Record<string, LastRun>>

const file = () => join(cacheFolder(), 'durations.json')

/** Empty where there are none, or none that can be read. */
export function readLastRuns(): LastRuns {
  try {
    return JSON.parse(readFileSync(file(), 'utf8')) as LastRuns
  } catch {
    return {}
  }
}

/** Keeps those that others have written meanwhile. */
export function keepLastRuns(runs: LastRuns): void {
  mkdirSync(dirname(file()), { recursive: true })
  const draft = `${file()}-${process.pid}`
  writeFileSync(draft, JSON.stringify({ ...readLastRuns(), ...runs }))
  renameSync(draft, file())
}

/** Seconds that a file takes which has never run here: a control plane starts in 20, and long files have much to test. */
export function guessSeconds(path: string, needs: readonly Need[]): number {
  const started = needs.some(({ minutes }) => minutes !== undefined) ? 20 : 0
  return started + needs.length + statSync(path).size / 2_000
}
