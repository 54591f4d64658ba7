import { configRefused, gauge, type Reading } from '../telemetry/metrics/family.ts'
import type { Measured } from '../telemetry/metrics/metrics.ts'
import type { Configuration } from './settings/configuration.ts'
import type { Scheduler } from './sync/scheduler.ts'

const succeeded = gauge(
  'portico.source.last_success.timestamp',
  's',
  'When a source was last synced without an error (Unix time).',
)
const failures = gauge('portico.source.failures', '{sync}', 'Syncs of a source that have failed in a row.')
const entries = gauge('portico.source.entries', '{entry}', 'Entries that a source brought when it was last synced.')
const leftOut = gauge('portico.source.entries.left_out', '{entry}', 'Entries of a source that could not be taken.')
const up = gauge('portico.store.up', '', 'Whether the database can be used: 1 or 0.')

const SOURCE = 'portico.source'

interface MeasuredParts {
  readonly configuration: Configuration
  readonly scheduler: Scheduler
  /** Why the database can't be used. */
  readonly away: () => string | undefined
}

/** What a registry knows of itself when its metrics are read. Sources are those of its configuration and its administrators. */
export function measureRegistry({ configuration, scheduler, away }: MeasuredParts): Measured {
  const states = scheduler.states()
  return {
    readings: [
      { metric: configRefused, labels: {}, value: configuration.refused().length > 0 ? 1 : 0 },
      { metric: up, labels: {}, value: away() === undefined ? 1 : 0 },
      ...states.flatMap(ofSource),
    ],
    known: new Map([[SOURCE, new Set(states.map(({ name }) => name))]]),
  }
}

function ofSource(state: ReturnType<Scheduler['states']>[number]): Reading[] {
  const { name, lastSuccess, attempts, servers, skills } = state
  const labels = { [SOURCE]: name }
  const of = (type: string) => ({ ...labels, 'portico.entry.type': type })
  return [
    ...(lastSuccess === null ? [] : [{ metric: succeeded, labels, value: Date.parse(lastSuccess) / 1000 }]),
    { metric: failures, labels, value: attempts },
    { metric: entries, labels: of('server'), value: servers },
    { metric: entries, labels: of('skill'), value: skills },
    { metric: leftOut, labels, value: state.leftOut },
  ]
}
