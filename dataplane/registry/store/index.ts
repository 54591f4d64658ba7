import type { Logger } from 'pino'
import type { Jobs } from './jobs.ts'
import { openForReading, storeFile } from './open.ts'
import { createReader, type Reader } from './read.ts'
import type { AdminWriter } from './records.ts'
import { createSnapshot } from './snapshot.ts'
import { startWriter } from './writer.ts'

/** The store: reads happen here, writes in a thread of their own. */
export interface Store extends Pick<Jobs, 'applySettings' | 'syncSource' | 'recordSync'> {
  readonly reader: Reader
  readonly writer: AdminWriter
  close(): Promise<void>
}

/** Opens the store in this folder. Throws an Error that names what can't be had. */
export async function openStore(stateDirectory: string, log: Logger): Promise<Store> {
  const file = await storeFile(stateDirectory)
  const jobs = startWriter(file, log)
  try {
    await jobs.open()
  } catch (error) {
    await jobs.close()
    throw error
  }
  const database = openForReading(file)
  const snapshot = await createSnapshot(database)

  /** What has asked for a change reads it from then on. */
  const seen = <A extends unknown[], R>(job: (...args: A) => Promise<R>) =>
    async function writeAndSee(...args: A): Promise<R> {
      const outcome = await job(...args)
      await snapshot.refresh()
      return outcome
    }
  return {
    reader: createReader(database, snapshot),
    applySettings: seen(jobs.applySettings),
    syncSource: seen(jobs.syncSource),
    recordSync: seen(jobs.recordSync),
    writer: {
      publish: seen(jobs.publish),
      setClaims: seen(jobs.setClaims),
      deleteVersion: seen(jobs.deleteVersion),
      setStatus: seen(jobs.setStatus),
      putSource: seen(jobs.putSource),
      removeSource: seen(jobs.removeSource),
      putRegistry: seen(jobs.putRegistry),
      removeRegistry: seen(jobs.removeRegistry),
    },
    async close() {
      await database.destroy()
      await jobs.close()
    },
  }
}
