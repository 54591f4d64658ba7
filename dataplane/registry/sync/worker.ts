/**
 * The writing thread, with its own connection, so that parsing and long transactions never delay a request. `writer.ts`
 * is its other end.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Kysely } from 'kysely'
import { isDatabaseError } from '../../storage/sql.ts'
import type { ObserveStatement, RunStatement } from '../../storage/statements.ts'
import { createKeptClones } from '../sources/format/kept-clones.ts'
import type { SyncResult } from '../sources/format/source.ts'
import { SourceError } from '../sources/format/source-error.ts'
import { applySettings } from '../store/apply/apply-settings.ts'
import { type ChangeScope, notifyReplicas } from '../store/database/change-notifications.ts'
import { openForWriting } from '../store/database/open.ts'
import type { RegistryTables } from '../store/database/schema.ts'
import { createGroupCommit } from '../store/publish/group-commit.ts'
import { createFailedContents } from './failed-contents.ts'
import { beat, begin, inDatabase } from './heartbeat.ts'
import type { Work } from './jobs.ts'
import { underLease } from './lease.ts'
import { syncSource } from './sync-source.ts'
import type { Answer, Call, WorkerData } from './writer.ts'

const port = requirePort(parentPort)

const { location, stateDirectory, replica, pulse } = workerData as WorkerData

/** The number of statements reported in one message: a sync runs very many. */
const STATEMENTS_AT_ONCE = 256

beat(pulse)
/** The controllers of running jobs; the other side can abort a job. */
const running = new Map<number, AbortController>()
let opened: Promise<Kysely<RegistryTables>> | undefined
const { observeStatement, sendStatements } = batchStatements((statements) =>
  port.postMessage({ statements } satisfies Answer),
)

function requirePort(parent: MessagePort | null): MessagePort {
  if (parent === null) throw new Error('this file is the entry of a worker thread')
  return parent
}

/** Opens the one connection. If that fails, the next job tries again. */
function database(): Promise<Kysely<RegistryTables>> {
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
    const alone = <T>(work: () => Promise<T>) => underLease(store, lease, work)
    return syncSource(store, source, { full, stateDirectory, clones, failedContents, signal, alone })
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
    // The answer itself could not be sent, since it can't be cloned. The caller gets the error instead.
    if ('id' in call) port.postMessage({ id: call.id, error: plainError(error) } satisfies Answer)
  })
})

async function serve(call: Call): Promise<void> {
  if ('abort' in call) {
    running.get(call.abort)?.abort(new SourceError('stopped', 'the sync was stopped'))
    return
  }
  const { id, job, argument } = call
  begin(pulse, id)
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
          // A lost notification delays the other replicas only: they poll too.
        })
      return { id, result }
    },
    (error: Error): Answer => ({ id, error: plainError(error) }),
  )
  running.delete(id)
  sendStatements()
  port.postMessage(answer)
  // With its port closed the thread has nothing left to wait for, and ends.
  if (job === 'close') port.close()
}

/** Returns the scope of the notification to the other replicas after a job. A group commit sends its own. */
function chooseScope(job: keyof Work, result: unknown): ChangeScope | undefined {
  if (job === 'applySettings' || job === 'recordSync') return 'settings'
  return job === 'syncSource' && (result as SyncResult).changed ? 'entries' : undefined
}

function plainError(error: Error) {
  const { message } = error
  if (error instanceof SourceError) return { message, code: error.code, retryAfterMs: error.retryAfterMs }
  return { message, away: isDatabaseError(error) || isDatabaseError(error.cause) }
}

/** Collects reports of statements for another thread: `send` gets many at a time. */
function batchStatements(send: (statements: readonly RunStatement[]) => void): {
  readonly observeStatement: ObserveStatement
  sendStatements(): void
} {
  let batch: RunStatement[] = []

  function sendStatements(): void {
    if (batch.length === 0) return
    const statements = batch
    batch = []
    send(statements)
  }

  return {
    sendStatements,
    observeStatement(statement) {
      batch.push(statement)
      if (batch.length === STATEMENTS_AT_ONCE) sendStatements()
    },
  }
}
