import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import type { StoreSettings } from '../store/apply/apply-settings.ts'
import type { AdminWriter } from '../store/database/records.ts'
import type { SyncCall } from './schedule.ts'

/** What the writing thread does; every job is a promise that it answers. */
export interface Jobs extends AdminWriter {
  /** Resolves when the store is open and its schema the newest. */
  open(): Promise<void>
  applySettings(settings: StoreSettings): Promise<void>
  /** Throws a SourceError. */
  syncSource(source: SyncedSource, call: SyncCall): Promise<SyncResult>
  /** Keeps how the syncs of a source stand, for the time after a restart and for other replicas. `state` is JSON. */
  recordSync(record: { readonly source: string; readonly state: string }): Promise<void>
  close(): Promise<void>
}

/** The same on the thread's side: the arguments of a job in one object, and the signal of its caller. */
export interface Work extends Omit<Jobs, 'syncSource'> {
  syncSource(
    argument: { readonly source: SyncedSource; readonly full: boolean },
    signal: AbortSignal,
  ): Promise<SyncResult>
}
