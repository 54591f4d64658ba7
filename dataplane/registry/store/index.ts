import type { Logger } from 'pino'
import { openForReading, storeFile } from './open.ts'
import { createReader, type Reader } from './read.ts'
import { type Jobs, startWriter } from './writer.ts'

/** The store: reads happen here, writes in a thread of their own. */
export interface Store extends Pick<Jobs, 'applySettings' | 'syncSource'> {
  readonly reader: Reader
  close(): Promise<void>
}

/** Opens the store in this folder. Throws an Error that names what can't be had. */
export async function openStore(stateDirectory: string, log: Logger): Promise<Store> {
  const file = await storeFile(stateDirectory)
  const writer = startWriter(file, log)
  try {
    await writer.open()
  } catch (error) {
    await writer.close()
    throw error
  }
  const database = openForReading(file)
  return {
    reader: createReader(database),
    applySettings: writer.applySettings,
    syncSource: writer.syncSource,
    async close() {
      await database.destroy()
      await writer.close()
    },
  }
}
