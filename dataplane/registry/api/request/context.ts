import type { Actor } from '../../authz/actor.ts'
import type { Visibility } from '../../authz/visibility.ts'
import type { Identity } from '../../settings/identity.ts'
import type { SyncState } from '../../sources/format/source.ts'
import type { AdminWriter } from '../../store/database/records.ts'
import type { Reader } from '../../store/read/read.ts'

/** How the syncs of sources stand, and what starts one. */
export interface Syncs {
  /** Undefined where this source is not synced. */
  stateOf(source: string): SyncState | undefined
  /** Begins a full pass now; false where there is nothing to sync. With `wait` it resolves when the pass has ended. */
  run(source: string, options: { readonly wait: boolean }): Promise<boolean>
  /** To be called when a source was created, changed or removed. */
  changed(): Promise<void>
}

/** What the operations of the API work with. */
export interface Api {
  readonly reader: Reader
  readonly writer: AdminWriter
  readonly identity: Identity
  readonly syncs: Syncs
  visibilityOf(actor: Actor): Visibility
  /** Of the configuration in force. */
  limits(): { readonly bodyBytes: number; readonly managedBytes: number; readonly privateSources: 'allow' | 'deny' }
}

/** Now, in the form that the store holds: UTC with milliseconds. */
export const now = () => new Date().toISOString()
