import type { RegistryStatus } from '../config/status.ts'
import type { Configuration } from './settings/configuration.ts'
import type { Scheduler } from './sync/scheduler.ts'

/** What `/status` answers: the configuration in force, what is wrong with a later one, and how each source stands. */
export function statusOf(
  configuration: Configuration,
  scheduler: Scheduler,
  auditProblem: string | undefined,
): RegistryStatus {
  const { hash, registries } = configuration.current()
  const sources = scheduler.states()
  const problems = [
    ...(auditProblem === undefined ? [] : [warning('AuditLogUnavailable', auditProblem)]),
    ...leftOut(sources).map((message) => warning('EntryInvalid', message)),
  ]
  return { config: hash, refused: configuration.refused(), problems, registries, sources }
}

const warning = (code: string, message: string) => ({ severity: 'warning' as const, code, message })

/** Entries that were left out and are told as problems of the registry, the first ones; each source has its own list. */
const MOST_LEFT_OUT = 100

function leftOut(sources: ReturnType<Scheduler['states']>): readonly string[] {
  const messages = sources.flatMap(({ name, problems }) =>
    problems.flatMap(({ pointer, message, served }) =>
      served ? [] : `${name}: ${pointer || 'an entry'} is left out: ${message}`,
    ),
  )
  return messages.slice(0, MOST_LEFT_OUT)
}

/**
 * Makes the readiness probe: ready once the first sync of every source has ended, one way or the other. Ready stays
 * ready: a source that joins later takes no requests away from those that are served. Not ready while the database is away.
 */
export function readiness(scheduler: Scheduler, away: () => string | undefined): () => true | { reason: string } {
  let ready = false
  return function isReady() {
    const reason = away()
    if (reason !== undefined) return { reason }
    const waiting = ready ? [] : scheduler.states().filter(({ tried }) => !tried)
    ready = waiting.length === 0
    return ready || { reason: `the first sync of ${waiting.map(({ name }) => name).join(', ')} has not ended` }
  }
}
