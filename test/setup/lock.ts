import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as delay } from 'node:timers/promises'

const POLL_MS = 500

/**
 * Runs `work` while no other process holds the lock. It is a kernel lock on an SQLite file, so it ends with its
 * process, however that ends, and is never stale.
 * @param file the lock's file, which is created if it does not exist
 * @param waiting called once if another process holds the lock
 */
export async function runLocked<T>(file: string, waiting: () => void, work: () => Promise<T>): Promise<T> {
  mkdirSync(dirname(file), { recursive: true })
  const database = new DatabaseSync(file, { timeout: 0 })
  try {
    for (let first = true; !tryLock(database); first = false) {
      if (first) waiting()
      await delay(POLL_MS)
    }
    return await work()
  } finally {
    database.close()
  }
}

function tryLock(database: DatabaseSync): boolean {
  try {
    database.exec('begin exclusive')
    return true
  } catch (error) {
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return false
    throw error
  }
}

const SQLITE_BUSY = 5
