import type { Problem } from './read-entry.ts'

/** How the syncs of a source stand. Times are UTC with milliseconds; null where there is none yet. */
export interface SyncState {
  readonly state: 'waiting' | 'running' | 'ok' | 'failed'
  /** Whether a first attempt has ended. */
  readonly tried: boolean
  readonly lastAttempt: string | null
  readonly lastSuccess: string | null
  readonly nextRun: string | null
  /** Attempts since the last success; 0 after one. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly servers: number
  readonly skills: number
  /** How many entries were left out, and the first of them. */
  readonly leftOut: number
  readonly problems: readonly Problem[]
}
