/**
 * The thread that writes: it has its own connection, reads sources and applies them, so that parsing and long
 * transactions never hold up a request. `writer.ts` is its other end.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { Kysely } from 'kysely'
import { SourceError } from '../sources/source-error.ts'
import { syncFile } from '../sources/sync-file.ts'
import { applySettings } from './apply-settings.ts'
import { openForWriting } from './open.ts'
import type { RegistryTables } from './schema.ts'
import type { Answer, Call, Jobs } from './writer.ts'

const port = parentPort
if (port === null) throw new Error('this file is the entry of a worker thread')

const { file } = workerData as { file: string }
let opened: Promise<Kysely<RegistryTables>> | undefined

/** The one connection. Where it can't be had, the next job tries again. */
function database(): Promise<Kysely<RegistryTables>> {
  opened ??= openForWriting(file).catch((error) => {
    opened = undefined
    throw error
  })
  return opened
}

const jobs: Jobs = {
  open: async () => void (await database()),
  applySettings: async (settings) => applySettings(await database(), settings),
  syncFile: async (source) => syncFile(await database(), source),
  close: async () => (await opened)?.destroy(),
}

port.on('message', async ({ id, job, argument }: Call) => {
  const answer = await (jobs[job] as (argument: unknown) => Promise<unknown>)(argument).then(
    (result): Answer => ({ id, result }),
    (error: Error): Answer => ({
      id,
      error: { message: error.message, ...(error instanceof SourceError && { code: error.code }) },
    }),
  )
  port.postMessage(answer)
  // With its port closed the thread has nothing left to wait for, and ends.
  if (job === 'close') port.close()
})
