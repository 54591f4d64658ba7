import type { KubernetesObject } from '../../model/view.ts'
import type { Condition } from '../../reconcile/outcome/plan.ts'
import type { KeyedQueue } from '../queue/queue.ts'
import type { Watches } from '../watch/watches.ts'

interface MetricsSources {
  readonly queue: KeyedQueue
  readonly watches: Watches
  readonly objects: () => readonly KubernetesObject[]
  readonly leading: () => boolean
}

export interface Metrics {
  /** Counts one reconcile. */
  reconciled(kind: string, result: string, seconds: number): void
  /** All metrics in the Prometheus text format, version 0.0.4. */
  text(): string
}

type Labels = Readonly<Record<string, string>>

const quoted = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
const sample = (name: string, labels: Labels, value: number) => {
  const pairs = Object.entries(labels).map(([key, text]) => `${key}="${quoted(text)}"`)
  return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`
}

function family(name: string, type: 'counter' | 'gauge', help: string, samples: readonly [Labels, number][]): string[] {
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(([labels, value]) => sample(name, labels, value)),
  ]
}

/** Objects by kind and what their Ready condition says. */
function byReadiness(objects: readonly KubernetesObject[]): [Labels, number][] {
  const counts = new Map<string, number>()
  for (const { kind, status } of objects) {
    const conditions = (status as { conditions?: readonly Condition[] } | undefined)?.conditions ?? []
    const ready = conditions.find(({ type }) => type === 'Ready')?.status ?? 'Unknown'
    counts.set(`${kind}/${ready}`, (counts.get(`${kind}/${ready}`) ?? 0) + 1)
  }
  return [...counts].sort().map(([key, count]) => {
    const [kind = '', ready = ''] = key.split('/')
    return [{ kind, ready }, count]
  })
}

function watchFamilies(watches: Watches): string[] {
  const watched = watches.metrics
  const ofWatches = (pick: (metrics: (typeof watched)[number]['metrics']) => number): [Labels, number][] =>
    watched.map(({ name, metrics }) => [{ watch: name }, pick(metrics)])
  return [
    ...family(
      'portico_operator_watch_lists_total',
      'counter',
      'Full lists read.',
      ofWatches(({ lists }) => lists),
    ),
    ...family(
      'portico_operator_watch_failures_total',
      'counter',
      'Watches and lists that failed.',
      ofWatches(({ failures }) => failures),
    ),
    ...family(
      'portico_operator_watch_last_seen_seconds',
      'gauge',
      'When the watch last heard of the API server (Unix time).',
      ofWatches(({ lastSeen }) => lastSeen / 1000),
    ),
  ]
}

/** The operator's own metrics: what alerts need, few enough to be written out by hand. */
export function startMetrics({ queue, watches, objects, leading }: MetricsSources): Metrics {
  const totals = new Map<string, { kind: string; result: string; count: number; seconds: number }>()
  return {
    reconciled(kind, result, seconds) {
      const key = `${kind}/${result}`
      const total = totals.get(key) ?? { kind, result, count: 0, seconds: 0 }
      total.count += 1
      total.seconds += seconds
      totals.set(key, total)
    },
    text() {
      const { user, system } = process.cpuUsage()
      const reconciles = [...totals.values()]
      return [
        ...family('portico_operator_leading', 'gauge', 'Whether this replica holds the lease.', [
          [{}, leading() ? 1 : 0],
        ]),
        ...family('portico_operator_objects', 'gauge', 'Objects by kind and Ready condition.', byReadiness(objects())),
        ...family(
          'portico_operator_reconciles_total',
          'counter',
          'Reconciles by kind and result.',
          reconciles.map(({ kind, result, count }) => [{ kind, result }, count]),
        ),
        ...family(
          'portico_operator_reconcile_seconds_total',
          'counter',
          'Time spent in reconciles.',
          reconciles.map(({ kind, result, seconds }) => [{ kind, result }, seconds]),
        ),
        ...family('portico_operator_queue_depth', 'gauge', 'Keys that wait.', [[{}, queue.depth]]),
        ...family('portico_operator_queue_delayed', 'gauge', 'Keys that wait for a retry.', [[{}, queue.delayed]]),
        ...family('portico_operator_queue_working', 'gauge', 'Keys being worked on.', [[{}, queue.working]]),
        ...watchFamilies(watches),
        // The names that Prometheus client libraries give these two.
        ...family('process_cpu_seconds_total', 'counter', 'User and system CPU time spent, in seconds.', [
          [{}, (user + system) / 1_000_000],
        ]),
        ...family('process_resident_memory_bytes', 'gauge', 'Resident memory, in bytes.', [
          [{}, process.memoryUsage.rss()],
        ]),
        '',
      ].join('\n')
    },
  }
}
