import { kinds } from '../../../crds/index.ts'
import { counter, gauge, type Labels, type Reading } from '../../../dataplane/telemetry/metrics/family.ts'
import { Metrics } from '../../../dataplane/telemetry/metrics/metrics.ts'
import { ProcessMeter } from '../../../dataplane/telemetry/metrics/process.ts'
import { type PrometheusText, prometheusText } from '../../../dataplane/telemetry/metrics/prometheus.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { conditionProblems, readConditions } from '../../reconcile/outcome/plan.ts'
import type { KeyedQueue } from '../queue/queue.ts'
import type { Watches } from '../watch/watches.ts'
import type { Rollouts } from './rollouts.ts'

interface MetricsSources {
  readonly queue: KeyedQueue
  readonly watches: Watches
  readonly rollouts: Rollouts
  readonly objects: () => readonly KubernetesObject[]
  readonly leading: () => boolean
}

export interface OperatorMetrics {
  reconciled(kind: string, result: string, seconds: number): void
  /** Counts one request to the API server. `code` is its HTTP status, or `error` if there was no answer. */
  asked(verb: string, code: string, seconds: number): void
  reviewed(kind: string, outcome: string): void
  /** Returns the text that Prometheus fetches. `resource` names the reporter, `accept` is the header of the request. */
  text(resource: Labels, accept: string | undefined): PrometheusText
  close(): void
}

/** Seconds. A reconcile makes a few requests, one of which may wait. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

const leadingMetric = gauge('portico.operator.leading', '', 'Whether this replica holds the lease.')
const objectsMetric = gauge('portico.operator.objects', '{object}', 'Objects by kind and Ready condition.')
const problemsMetric = gauge(
  'portico.operator.problems',
  '{object}',
  'Objects whose conditions say that something is wrong, by condition and reason.',
)
const depth = gauge('portico.operator.queue.depth', '{key}', 'Keys that wait.')
const delayed = gauge('portico.operator.queue.delayed', '{key}', 'Keys that wait for a retry.')
const working = gauge('portico.operator.queue.working', '{key}', 'Keys being worked on.')
const lists = counter('portico.operator.watch.lists', '{list}', 'Full lists read.')
const failures = counter('portico.operator.watch.failures', '{failure}', 'Watches and lists that failed.')
const lastSeen = gauge(
  'portico.operator.watch.last_seen',
  's',
  'Time of the last message from the API server (Unix time).',
)
// The names that Prometheus client libraries use for these two, for dashboards of Go programs.
const cpu = counter('process.cpu', 's', 'User and system CPU time spent, in seconds.')
const memory = gauge('process.resident_memory', 'By', 'Resident memory, in bytes.')

const changed = gauge(
  'portico.operator.config.changed.timestamp',
  's',
  'Time of the last change of a config (Unix time): of the newest and of the oldest one of this kind.',
)

const configKinds: ReadonlySet<string> = new Set(
  Object.values(kinds)
    .filter(({ role }) => role === 'config')
    .map(({ kind }) => kind),
)

/** Counts objects by problem. Errors keep them from being served, warnings don't. */
function countByProblem(objects: readonly KubernetesObject[]): Reading[] {
  const found = new Map<string, { labels: Labels; value: number }>()
  for (const object of objects) {
    for (const { condition, reason, severity } of conditionProblems({
      status: { conditions: readConditions(object) },
    })) {
      const labels = { kind: object.kind, condition, reason, severity }
      const key = Object.values(labels).join('/')
      found.set(key, { labels, value: (found.get(key)?.value ?? 0) + 1 })
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, reading]) => ({ metric: problemsMetric, ...reading }))
}

function countByReadiness(objects: readonly KubernetesObject[]): Reading[] {
  const counts = new Map<string, number>()
  for (const object of objects) {
    const { kind } = object
    const ready = readConditions(object).find(({ type }) => type === 'Ready')?.status ?? 'Unknown'
    counts.set(`${kind}/${ready}`, (counts.get(`${kind}/${ready}`) ?? 0) + 1)
  }
  return [...counts].sort().map(([key, value]) => {
    const [kind = '', ready = ''] = key.split('/')
    return { metric: objectsMetric, labels: { kind, ready }, value }
  })
}

const readWatches = (watches: Watches): Reading[] =>
  watches.metrics.flatMap(({ name, metrics }) => {
    const labels = { watch: name }
    return [
      { metric: lists, labels, value: metrics.lists },
      { metric: failures, labels, value: metrics.failures },
      { metric: lastSeen, labels, value: metrics.lastSeen / 1000 },
    ]
  })

function readProcess(): Reading[] {
  const { user, system } = process.cpuUsage()
  return [
    { metric: cpu, labels: {}, value: (user + system) / 1_000_000 },
    { metric: memory, labels: {}, value: process.memoryUsage.rss() },
  ]
}

/** Starts the operator's own metrics, with the same code as those of the data plane. */
export function startMetrics({ queue, watches, rollouts, objects, leading }: MetricsSources): OperatorMetrics {
  const meter = new ProcessMeter()
  const measure = () => {
    const all = objects()
    const readings = [
      { metric: leadingMetric, labels: {}, value: leading() ? 1 : 0 },
      ...countByReadiness(all),
      ...countByProblem(all),
      ...readConfigChanges(all),
      ...rollouts.readings(),
      { metric: depth, labels: {}, value: queue.depth },
      { metric: delayed, labels: {}, value: queue.delayed },
      { metric: working, labels: {}, value: queue.working },
      ...readWatches(watches),
      ...readProcess(),
      ...meter.read(),
    ]
    return { readings }
  }
  const metrics = new Metrics([measure])
  const describeMetric = (name: string, unit: string, description: string) => ({
    name: `portico.operator.${name}`,
    unit,
    description,
  })
  const reconciles = metrics.add({
    ...describeMetric('reconciles', '{reconcile}', 'Reconciles by kind and result.'),
    labels: ['kind', 'result'],
  })
  const durations = metrics.add({
    ...describeMetric('reconcile.duration', 's', 'Duration of a reconcile.'),
    labels: ['kind'],
    bounds: BOUNDS,
  })
  const requests = metrics.add({
    ...describeMetric(
      'api.request.duration',
      's',
      'Duration of a request to the API server, to the head of its answer.',
    ),
    labels: ['verb', 'code'],
    bounds: BOUNDS,
  })
  const reviews = metrics.add({
    ...describeMetric('admission.reviews', '{review}', 'Objects that the admission webhook has reviewed.'),
    labels: ['kind', 'outcome'],
  })
  return {
    reconciled(kind, result, seconds) {
      reconciles.series([kind, result]).add(1)
      durations.series([kind]).add(seconds)
    },
    asked: (verb, code, seconds) => requests.series([verb, code]).add(seconds),
    reviewed: (kind, outcome) => reviews.series([kind, outcome]).add(1),
    text: (resource, accept) => prometheusText(metrics.read(), resource, accept),
    close: () => meter.close(),
  }
}

/**
 * Returns when the hash of a config last changed, in milliseconds of Unix time, or the config's creation. Undefined
 * without a hash.
 */
function findChangeTime({ metadata, status }: KubernetesObject): number | undefined {
  const { configHash, configHashTime } = (status ?? {}) as Readonly<Record<string, string | undefined>>
  const at = Date.parse(configHashTime ?? metadata.creationTimestamp ?? '')
  return configHash === undefined || Number.isNaN(at) ? undefined : at
}

/** Returns the oldest and the newest change of a config's hash for each kind, whatever the number of objects. */
function readConfigChanges(objects: readonly KubernetesObject[]): readonly Reading[] {
  const found = new Map<string, { newest: number; oldest: number }>()
  for (const object of objects) {
    const at = configKinds.has(object.kind) ? findChangeTime(object) : undefined
    if (at === undefined) continue
    const { newest, oldest } = found.get(object.kind) ?? { newest: at, oldest: at }
    found.set(object.kind, { newest: Math.max(newest, at), oldest: Math.min(oldest, at) })
  }
  return [...found].sort().flatMap(([kind, { newest, oldest }]) => [
    { metric: changed, labels: { kind, config: 'newest' }, value: newest / 1000 },
    { metric: changed, labels: { kind, config: 'oldest' }, value: oldest / 1000 },
  ])
}
