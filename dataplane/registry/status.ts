import type { RegistryStatus } from '../config/status.ts'
import { configRefused, gauge, type Reading } from '../telemetry/metrics/family.ts'
import type { Measured } from '../telemetry/metrics/metrics.ts'
import type { Configuration } from './settings/configuration.ts'
import type { Scheduler } from './sync/schedule.ts'

const succeeded = gauge(
  'portico.source.last_success.timestamp',
  's',
  'When a source was last synced without an error (Unix time).',
)
const failures = gauge('portico.source.failures', '{sync}', 'Syncs of a source that have failed in a row.')
const entries = gauge('portico.source.entries', '{entry}', 'Entries of a source at its last sync.')
const entriesLeftOut = gauge('portico.source.entries.left_out', '{entry}', 'Entries of a source that were left out.')
const up = gauge('portico.store.up', '', 'Whether the database can be used: 1 or 0.')

const SOURCE = 'portico.source'

interface MeasuredParts {
  readonly configuration: Configuration
  readonly scheduler: Scheduler
  readonly away: () => string | undefined
}

/** Builds the answer of `/status`: the configuration in force, the findings of a refused one, and each source. */
export function buildStatus(
  configuration: Configuration,
  scheduler: Scheduler,
  auditProblem: string | undefined,
): RegistryStatus {
  const { hash, registries } = configuration.current()
  const sources = scheduler.states()
  const problems = [
    ...(auditProblem === undefined ? [] : [warning('AuditLogUnavailable', auditProblem)]),
    ...listLeftOut(sources).map((message) => warning('EntryInvalid', message)),
  ]
  return { config: hash, refused: configuration.refused(), problems, registries, sources }
}

const warning = (code: string, message: string) => ({ severity: 'warning' as const, code, message })

/** The most left-out entries in the problems of the status. */
const MOST_LEFT_OUT = 100

function listLeftOut(sources: ReturnType<Scheduler['states']>): readonly string[] {
  const messages = sources.flatMap(({ name, problems }) =>
    problems.flatMap(({ pointer, message, served }) =>
      served ? [] : `${name}: ${pointer || 'an entry'} is left out: ${message}`,
    ),
  )
  return messages.slice(0, MOST_LEFT_OUT)
}

/** Creates the readiness check: ready while the database answers, once each source was synced, successfully or not. */
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

export function measureRegistry({ configuration, scheduler, away }: MeasuredParts): Measured {
  const states = scheduler.states()
  return {
    readings: [
      { metric: configRefused, labels: {}, value: configuration.refused().length > 0 ? 1 : 0 },
      { metric: up, labels: {}, value: away() === undefined ? 1 : 0 },
      ...states.flatMap(measureSource),
    ],
    known: new Map([[SOURCE, new Set(states.map(({ name }) => name))]]),
  }
}

function measureSource(state: ReturnType<Scheduler['states']>[number]): Reading[] {
  const { name, lastSuccess, attempts, servers, skills } = state
  const labels = { [SOURCE]: name }
  const of = (type: string) => ({ ...labels, 'portico.entry.type': type })
  return [
    ...(lastSuccess === null ? [] : [{ metric: succeeded, labels, value: Date.parse(lastSuccess) / 1000 }]),
    { metric: failures, labels, value: attempts },
    { metric: entries, labels: of('server'), value: servers },
    { metric: entries, labels: of('skill'), value: skills },
    { metric: entriesLeftOut, labels, value: state.leftOut },
  ]
}
