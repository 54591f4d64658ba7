import type { SyncCall } from '../sources/schedule.ts'
import type { Source, Synced } from '../sources/source.ts'
import type { StoreSettings } from './apply-settings.ts'
import type { AdminWriter } from './records.ts'

/** What the writing thread does; every job is a promise that it answers. */
export interface Jobs extends AdminWriter {
  /** Resolves when the store is open and its schema the newest. */
  open(): Promise<void>
  applySettings(settings: StoreSettings): Promise<void>
  /** Throws a SourceError. */
  syncSource(source: Source, call: SyncCall): Promise<Synced>
  /** Keeps how the syncs of a source stand, for the time after a restart and for other replicas. `state` is JSON. */
  recordSync(record: { readonly source: string; readonly state: string }): Promise<void>
  close(): Promise<void>
}

/** The same on the thread's side: what a job is told in one object, and the signal of the one that asked. */
export interface Work extends Omit<Jobs, 'syncSource'> {
  syncSource(argument: { readonly source: Source; readonly full: boolean }, signal: AbortSignal): Promise<Synced>
}

/** Jobs that are one small transaction each; those that come at once share one, and with it one wait for the disk. */
export type Change = keyof AdminWriter
