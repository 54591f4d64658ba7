import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import type { StoreSettings } from '../store/apply/apply-settings.ts'
import type { AdminWriter } from '../store/database/records.ts'
import type { SyncCall } from './schedule.ts'

export interface Jobs extends AdminWriter {
  /** Resolves when the store is open and its schema the newest. */
  open(): Promise<void>
  applySettings(settings: StoreSettings): Promise<void>
  /** Throws a SourceError. */
  syncSource(source: SyncedSource, call: SyncCall): Promise<SyncResult>
  /** Stores the state of a source's syncs, for the time after a restart and for other replicas. `state` is JSON. */
  recordSync(record: { readonly source: string; readonly state: string }): Promise<void>
  close(): Promise<void>
}

/** The jobs on the thread's side, with all arguments in one object, and the signal of the caller. */
export interface Work extends Omit<Jobs, 'syncSource'> {
  syncSource(
    argument: { readonly source: SyncedSource; readonly full: boolean },
    signal: AbortSignal,
  ): Promise<SyncResult>
}
