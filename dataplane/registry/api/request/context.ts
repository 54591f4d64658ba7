import type { Actor } from '../../authz/actor.ts'
import type { Visibility } from '../../authz/visibility.ts'
import type { Identity } from '../../settings/identity.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { AdminWriter } from '../../store/database/records.ts'
import type { Reader } from '../../store/read/read.ts'

/** The state of the sources' syncs, and the means to start one. */
export interface Syncs {
  /** Undefined if this source is not synced. */
  stateOf(source: string): SyncState | undefined
  /** Starts a full pass now; false if there is nothing to sync. With `wait` it resolves when the pass has ended. */
  run(source: string, options: { readonly wait: boolean }): Promise<boolean>
  changed(): Promise<void>
}

export interface Api {
  readonly reader: Reader
  readonly writer: AdminWriter
  readonly identity: Identity
  readonly syncs: Syncs
  visibilityOf(actor: Actor): Visibility
  /** Aborted when the registry stops: whoever waits for a change is answered then. */
  readonly ending: AbortSignal
  /** The limits of the configuration in force. */
  limits(): { readonly bodyBytes: number; readonly managedBytes: number; readonly privateSources: 'allow' | 'deny' }
}

/** Returns the current time in the form that the store holds: UTC with milliseconds. */
export const now = () => new Date().toISOString()
