/**
 * The thread that writes: it has its own connection, reads sources and applies them, so that parsing and long
 * transactions never hold up a request. `writer.ts` is its other end.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { SourceError } from '../sources/source-error.ts'
import { syncFile } from '../sources/sync-file.ts'
import { applySettings } from './apply-settings.ts'
import { openForWriting } from './open.ts'
import type { Answer, Call, Jobs } from './writer.ts'

const port = parentPort
if (port === null) throw new Error('this file is the entry of a worker thread')

const { file } = workerData as { file: string }
const opened = openForWriting(file)

const isLost = () =>
  opened.then(
    () => false,
    () => true,
  )

const jobs: Jobs = {
  open: async () => void (await opened),
  applySettings: async (settings) => applySettings(await opened, settings),
  syncFile: async (source) => syncFile(await opened, source),
  close: async () => (await opened).destroy(),
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
  // The thread ends once its port is closed. One that got no store makes room for another that may.
  if (job === 'close' || (await isLost())) port.close()
})
