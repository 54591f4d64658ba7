/**
 * The writing thread. It has connections of its own, so that parsing and long transactions don't delay requests.
 * `writer.ts` starts it and gives it jobs.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { isDatabaseError, type RunStatement } from '../../storage/sql.ts'
import { createKeptClones } from '../sources/format/kept-clones.ts'
import type { SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { applySettings } from '../store/apply/apply-settings.ts'
import { type ChangeScope, notifyReplicas } from '../store/database/change-notifications.ts'
import { openForWriting } from '../store/database/open.ts'
import type { Database } from '../store/database/schema.ts'
import { createGroupCommit } from '../store/publish/group-commit.ts'
import { inDatabase, recordBegin, startBeating } from './heartbeat.ts'
import { underLease } from './lease.ts'
import { createFailedContents, syncSource } from './sync-source.ts'
import type { Answer, Call, Work, WorkerData } from './writer.ts'

if (parentPort === null) throw new Error('this file is the entry of a worker thread')
const port = parentPort

const { location, stateDirectory, replica, pulse } = workerData as WorkerData

/** The statements reported in one message, since a sync runs very many. */
const STATEMENTS_AT_ONCE = 256

startBeating(pulse)
/** The controllers of running jobs, by which `writer.ts` aborts them. */
const running = new Map<number, AbortController>()
let opened: Promise<Database> | undefined
/** The reports of statements that have not been sent yet. */
let statements: RunStatement[] = []

function observeStatement(statement: RunStatement): void {
  statements.push(statement)
  if (statements.length === STATEMENTS_AT_ONCE) sendStatements()
}

function sendStatements(): void {
  if (statements.length > 0) port.postMessage({ statements } satisfies Answer)
  statements = []
}

/** Opens the store once. If that fails, the next job tries again. */
function database(): Promise<Database> {
  opened ??= openForWriting(location, (call) => inDatabase(pulse, call), observeStatement).catch((error) => {
    opened = undefined
    throw error
  })
  return opened
}

const clones = createKeptClones(stateDirectory)
const failedContents = createFailedContents()
const commit = createGroupCommit(database, replica)

const jobs: Work = {
  async open() {
    await database()
  },
  applySettings: async (settings) => applySettings(await database(), settings),
  async syncSource({ source, full }, signal) {
    const store = await database()
    const lease = { name: `sync ${source.name}`, holder: replica, signal }
    const runAlone = <T>(work: () => Promise<T>) => underLease(store, lease, work)
    return syncSource(store, source, { full, stateDirectory, clones, failedContents, signal, runAlone })
  },
  async recordSync({ source, state }) {
    const store = await database()
    await store.updateTable('source').set({ sync_state: state }).where('name', '=', source).execute()
  },
  publish: (publication) => commit('publish', publication),
  setClaims: (change) => commit('setClaims', change),
  deleteVersion: (change) => commit('deleteVersion', change),
  setStatus: (change) => commit('setStatus', change),
  putSource: (change) => commit('putSource', change),
  removeSource: (change) => commit('removeSource', change),
  putRegistry: (change) => commit('putRegistry', change),
  removeRegistry: (change) => commit('removeRegistry', change),
  async close() {
    await clones.close()
    await (await opened)?.destroy()
  },
}

port.on('message', (call: Call) => {
  serve(call).catch((error: Error) => {
    // The answer can't be cloned. The caller gets that error instead.
    if ('id' in call) port.postMessage({ id: call.id, error: serializeError(error) } satisfies Answer)
  })
})

async function serve(call: Call): Promise<void> {
  if ('abort' in call) {
    running.get(call.abort)?.abort(new SourceError('stopped', 'the sync was stopped'))
    return
  }
  const { id, job, argument } = call
  recordBegin(pulse, id)
  const controller = new AbortController()
  running.set(id, controller)
  const answer = await (jobs[job] as (argument: unknown, signal: AbortSignal) => Promise<unknown>)(
    argument,
    controller.signal,
  ).then(
    async (result): Promise<Answer> => {
      const scope = chooseScope(job, result)
      const notify = async (changed: ChangeScope) => notifyReplicas(await database(), replica, changed)
      if (scope !== undefined)
        await notify(scope).catch(() => {
          // The other replicas find the change when they poll.
        })
      return { id, result }
    },
    (error: Error): Answer => ({ id, error: serializeError(error) }),
  )
  running.delete(id)
  sendStatements()
  port.postMessage(answer)
  // Without its port the thread has nothing to wait for, and ends.
  if (job === 'close') port.close()
}

/** Returns what to tell other replicas after a job. A group commit notifies them by itself. */
function chooseScope(job: keyof Work, result: unknown): ChangeScope | undefined {
  if (job === 'applySettings' || job === 'recordSync') return 'settings'
  return job === 'syncSource' && (result as SyncResult).changed ? 'entries' : undefined
}

function serializeError(error: Error) {
  const { message } = error
  if (error instanceof SourceError) return { message, code: error.code, retryAfterMs: error.retryAfterMs }
  return { message, away: isDatabaseError(error) || isDatabaseError(error.cause) }
}
