import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { observeStatements } from '../../storage/sql.ts'
import type { PostgresConfig } from '../../storage/sql-postgres.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { subscribeToChanges } from '../store/database/change-notifications.ts'
import { openForReading, prepareFile } from '../store/database/open.ts'
import type { AdminWriter } from '../store/database/records.ts'
import { askStore, createReader, type Reader } from '../store/read/read.ts'
import { createSnapshot } from '../store/read/snapshot.ts'
import { guardSyncs, openQuarantine } from './quarantine.ts'
import { type Jobs, startWriter } from './writer.ts'

export interface Store extends Pick<Jobs, 'applySettings' | 'syncSource' | 'recordSync'> {
  readonly reader: Reader
  readonly writer: AdminWriter
  /** The reason why the database can't be reached; undefined while it can. */
  away(): string | undefined
  close(): Promise<void>
}

interface StoreOptions {
  readonly stateDirectory: string
  readonly postgres?: PostgresConfig | undefined
  readonly onSettings?: () => void
  readonly observe?: Observe
  readonly checkMs?: number | undefined
}

/** Opens the store. Throws an Error that says what is not available. */
export async function openStore(options: StoreOptions, log: Logger): Promise<Store> {
  const { stateDirectory, postgres, onSettings, observe, checkMs } = options
  const file = await prepareFile(stateDirectory)
  const location = postgres ?? file
  const replica = randomUUID()
  const quarantine = openQuarantine(stateDirectory, log)
  const observeStatement = observe && observeStatements(observe)
  const onEnd = quarantine.threadEnded
  const jobs = startWriter({ location, stateDirectory, replica, onEnd, observeStatement, checkMs }, log)
  try {
    await jobs.open()
  } catch (error) {
    await jobs.close()
    throw error
  }
  const database = openForReading(location, observeStatement)
  const snapshot = await createSnapshot(database, onSettings)
  const subscription = subscribeToChanges(location, replica, log, snapshot.refresh)

  /** Makes a job refresh the snapshot when it has ended, so that its caller reads the change. */
  const thenRefresh = <A extends unknown[], R>(job: (...args: A) => Promise<R>, changed?: 'entries') =>
    async function writeAndSee(...args: A): Promise<R> {
      let outcome: R
      try {
        outcome = await job(...args)
      } catch (error) {
        // The change may be written nevertheless, if the thread or connection ended before it could answer.
        await snapshot.refresh(changed).catch(() => {
          // The caller gets the error of the job.
        })
        throw error
      }
      await askStore(snapshot.refresh(changed))
      return outcome
    }
  return {
    reader: createReader(database, snapshot),
    applySettings: thenRefresh(jobs.applySettings),
    syncSource: thenRefresh(guardSyncs(jobs.syncSource, quarantine), 'entries'),
    recordSync: thenRefresh(jobs.recordSync),
    writer: {
      publish: thenRefresh(jobs.publish, 'entries'),
      setClaims: thenRefresh(jobs.setClaims, 'entries'),
      deleteVersion: thenRefresh(jobs.deleteVersion, 'entries'),
      setStatus: thenRefresh(jobs.setStatus, 'entries'),
      putSource: thenRefresh(jobs.putSource),
      removeSource: thenRefresh(jobs.removeSource),
      putRegistry: thenRefresh(jobs.putRegistry),
      removeRegistry: thenRefresh(jobs.removeRegistry),
    },
    away: subscription.away,
    async close() {
      await subscription.close()
      await database.destroy()
      await jobs.close()
    },
  }
}
