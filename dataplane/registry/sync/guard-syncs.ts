import type { SyncedSource, SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import type { Quarantine } from './quarantine.ts'
import type { SyncCall } from './schedule.ts'

type Sync = (source: SyncedSource, call: SyncCall) => Promise<SyncResult>

/**
 * Keeps syncs from the writing thread while their source is in quarantine. Those that have ended the thread before
 * are tried one at a time, so that it shows which of them it is.
 */
export function guardSyncs(sync: Sync, quarantine: Quarantine): Sync {
  let lastSuspect: Promise<unknown> = Promise.resolve()

  async function run(source: SyncedSource, call: SyncCall): Promise<SyncResult> {
    quarantine.check(source)
    try {
      const synced = await sync(source, call)
      quarantine.clear(source.name)
      return synced
    } catch (error) {
      // A SourceError says what is wrong. Anything else may be the end of the thread: the quarantine's error explains it.
      if (!(error instanceof SourceError)) quarantine.check(source)
      throw error
    }
  }

  return function guardedSync(source, call) {
    quarantine.check(source)
    if (!quarantine.isSuspect(source.name)) return run(source, call)
    const running = lastSuspect.then(() => {
      call.signal.throwIfAborted()
      return run(source, call)
    })
    lastSuspect = running.catch(() => {
      // The caller gets the error; the next suspect only waits for the end.
    })
    return running
  }
}
