import type { Family, Labels } from './family.ts'

/**
 * Writes metrics in Prometheus text format 0.0.4 or OpenMetrics 1.0, with OpenTelemetry's names (OpenTelemetry
 * specification, compatibility with Prometheus and OpenMetrics). `@opentelemetry/exporter-prometheus` leaves out units
 * and has no OpenMetrics.
 */

export interface PrometheusText {
  readonly text: string
  readonly contentType: string
}

const PLAIN = 'text/plain; version=0.0.4; charset=utf-8'
const OPEN = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

/** The units that have another name in Prometheus. A text in braces is no unit. */
const UNITS: ReadonlyMap<string, string> = new Map([
  ['s', 'seconds'],
  ['ms', 'milliseconds'],
  ['By', 'bytes'],
])

/** Returns families as text. `resource`: the reporting workload; `accept`: the request's Accept header. */
export function prometheusText(families: readonly Family[], resource: Labels, accept = ''): PrometheusText {
  const isOpen = accept.includes('application/openmetrics-text')
  const target = isOpen
    ? formatHeader('target', 'info', 'Who reports.')
    : formatHeader('target_info', 'gauge', 'Who reports.')
  const lines = [...target, sample('target_info', formatPairs(resource), 1)]
  for (const family of families) lines.push(...formatFamily(family, isOpen))
  if (isOpen) lines.push('# EOF')
  return { text: `${lines.join('\n')}\n`, contentType: isOpen ? OPEN : PLAIN }
}

function formatFamily(family: Family, isOpen: boolean): readonly string[] {
  const { type, description } = family.metric
  const { base, unit } = splitName(family)
  const name = type === 'counter' ? `${base}_total` : base
  const head = formatHeader(isOpen ? base : name, type, description)
  // In OpenMetrics the family of a counter has the name without its suffix.
  if (isOpen && unit !== undefined) head.push(`# UNIT ${base} ${unit}`)
  const samples =
    'points' in family
      ? family.points.map(({ labels, value }) => sample(name, formatPairs(labels), value))
      : histogramLines(base, family)
  return [...head, ...samples]
}

const formatHeader = (name: string, type: string, help: string): string[] => [
  `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`,
  `# TYPE ${name} ${type}`,
]

function histogramLines(name: string, { bounds, series }: Extract<Family, { series: unknown }>): readonly string[] {
  return series.flatMap(({ labels, buckets, count, sum }) => {
    const pairs = formatPairs(labels)
    let within = 0
    const lines = buckets.map((inBucket, index) => {
      within += inBucket
      return sample(`${name}_bucket`, [...pairs, `le="${bounds[index] ?? '+Inf'}"`], within)
    })
    return [...lines, sample(`${name}_sum`, pairs, sum), sample(`${name}_count`, pairs, count)]
  })
}

function splitName({ metric }: Family): { readonly base: string; readonly unit: string | undefined } {
  const { name, unit, type } = metric
  const plain = sanitize(name)
  const suffix = unit === '1' && type === 'gauge' ? 'ratio' : UNITS.get(unit)
  if (suffix === undefined) return { base: plain, unit: undefined }
  return { base: plain.endsWith(`_${suffix}`) ? plain : `${plain}_${suffix}`, unit: suffix }
}

/** Makes a name of letters, digits and single underscores, which is none of the reserved ones. */
const sanitize = (name: string): string => name.replaceAll(/[^A-Za-z0-9]+/g, '_').replace(/^(?=\d|$)/, '_')

/** Formats labels. Values of labels whose names become equal are joined, as the specification requires. */
function formatPairs(labels: Labels): readonly string[] {
  const values = new Map<string, string>()
  for (const name of Object.keys(labels).sort()) {
    const before = values.get(sanitize(name))
    const value = labels[name] as string
    values.set(sanitize(name), before === undefined ? value : `${before};${value}`)
  }
  return Array.from(values, ([name, value]) => `${name}="${quote(value)}"`)
}

const quote = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const sample = (name: string, pairs: readonly string[], value: number): string =>
  `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
