import { type Operation, OTHER_ERROR, type Outcome } from '../observe.ts'
import type { Role } from '../options.ts'
import type { Labels, Series } from './family.ts'
import { type Measure, type Metric, Metrics } from './metrics.ts'
import { ProcessMeter } from './process.ts'
import { type PrometheusText, prometheusText } from './prometheus.ts'

/** The metrics of a gateway or a registry. They continue across configurations, as long as something reads them. */
export class OwnMetrics {
  readonly durations: Durations
  readonly all: Metrics
  readonly #process = new ProcessMeter()

  constructor(role: Role, measures: readonly Measure[]) {
    this.all = new Metrics([...measures, () => ({ readings: this.#process.read() })])
    this.durations = new Durations(role, this.all)
  }

  /** Returns the metrics as text. `accept`: the request's Accept header. */
  text(resource: Labels, accept: string | undefined): PrometheusText {
    return prometheusText(this.all.read(), resource, accept)
  }

  close(): void {
    this.#process.close()
  }
}

/** The bounds in seconds that the semantic conventions for MCP advise. */
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
/** The bounds that the semantic conventions for databases advise. */
const STORE_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
const BACKEND = 'portico.backend'
const PROVIDER = 'portico.provider'
const WORKFLOW = 'portico.workflow'
const TOOL = 'gen_ai.tool.name'
const PROMPT = 'gen_ai.prompt.name'
const ERROR = 'error.type'
/** The most series of one backend in a metric: its excess does not take room from the series of others. */
const MOST_OF_A_BACKEND = 500
/** The most series of one method: a catalog may have more tools, and other methods keep their room. */
const MOST_OF_A_METHOD = 1_500
/** The methods whose target is a label, and the name of that label. */
const TARGET_LABELS: ReadonlyMap<string, typeof TOOL | typeof PROMPT> = new Map([
  ['tools/call', TOOL],
  ['prompts/get', PROMPT],
])
/** Longer target names are cut. */
const LONGEST_LABEL = 256
/** The most target names that are cached with their series. */
const MOST_TARGETS = 4_000

interface DurationMetric {
  readonly metric: string
  readonly description: string
  readonly label: string
  /** The attribute of the operation that is a second label; absent: its backend. */
  readonly of?: string
  readonly bounds?: readonly number[]
  readonly hasTargets?: boolean
}

const requests: Readonly<Record<Role, DurationMetric>> = {
  gateway: {
    metric: 'mcp.server.operation.duration',
    description: 'Duration of an MCP request as its receiver sees it.',
    label: 'mcp.method.name',
    hasTargets: true,
  },
  registry: {
    metric: 'portico.registry.request.duration',
    description: 'Duration of a request to the registry.',
    label: 'portico.operation',
  },
}

/** The operations that are measured. A call made for another request is part of that request. */
type Measured = Exclude<Operation['kind'], 'inner-call'>

const others: Readonly<Record<Exclude<Measured, 'request'>, DurationMetric>> = {
  'auth-request': {
    metric: 'portico.auth_server.request.duration',
    description: 'Duration of a request to the authorization server.',
    label: 'portico.operation',
  },
  provider: {
    metric: 'portico.provider.duration',
    description: 'Duration of a request to an identity provider.',
    label: 'portico.operation',
    of: PROVIDER,
  },
  step: {
    metric: 'portico.workflow.step.duration',
    description: 'Duration of a step of a composite tool.',
    label: 'portico.step',
    of: WORKFLOW,
  },
  'backend-call': {
    metric: 'mcp.client.operation.duration',
    description: 'Duration of an MCP request to a backend as its sender sees it.',
    label: 'mcp.method.name',
  },
  decision: {
    metric: 'portico.decision.duration',
    description: 'Duration of the authentication of a caller.',
    label: 'portico.decision',
  },
  exchange: {
    metric: 'portico.credential.duration',
    description: 'Time that a call waits for the credential of its caller.',
    label: 'portico.credential',
  },
  limit: {
    metric: 'portico.rate_limit.duration',
    description: 'Duration of the check of a tool call against rate limits.',
    label: 'portico.rate_limit.store',
  },
  sync: { metric: 'portico.sync.duration', description: 'Duration of a sync.', label: 'portico.source' },
  store: {
    metric: 'db.client.operation.duration',
    description: 'Duration of a request to a store.',
    label: 'db.system.name',
    of: 'db.operation.name',
    bounds: STORE_BOUNDS,
  },
}

type ByError = Map<string | undefined, Counted>

interface Counted {
  readonly duration: Series
  /** The series of the tool, for a call of one. */
  readonly tool: Series | undefined
}

/**
 * Measures the durations of operations and counts tool calls. A repeated operation object finds its series without a
 * lookup by name.
 */
export class Durations {
  readonly #role: Role
  readonly #metrics: Metrics
  readonly #histograms = new Map<Operation['kind'], Metric>()
  readonly #toolCalls: Metric
  readonly #counted = new WeakMap<Operation, ByError>()
  readonly #targeted = new Map<Operation, Map<string, ByError>>()

  constructor(role: Role, metrics: Metrics) {
    this.#role = role
    this.#metrics = metrics
    this.#toolCalls = metrics.add({
      name: 'portico.tool.calls',
      unit: '{call}',
      description: 'Calls of tools.',
      labels: [BACKEND, TOOL, ERROR],
      mostOfFirst: MOST_OF_A_BACKEND,
    })
  }

  /** Counts one operation that took `ms` milliseconds. `target`: the name of its target, which is in a catalog. */
  record(operation: Operation, { result, code }: Outcome, ms: number, target?: string): void {
    if (operation.kind === 'inner-call') return
    const error = result === 'ok' ? undefined : (code ?? OTHER_ERROR)
    const label = target === undefined ? undefined : this.#targetLabel(operation)
    const used = label === undefined ? undefined : target
    const byError = used === undefined ? this.#byError(operation) : this.#byTarget(operation, used)
    let counted = byError.get(error)
    if (counted === undefined || counted.duration.ended || counted.tool?.ended === true)
      byError.set(error, (counted = this.#find(operation, error, used)))
    counted.duration.add(ms / 1000)
    counted.tool?.add(1)
  }

  #targetLabel({ kind, name }: Operation): string | undefined {
    return kind === 'request' && requests[this.#role].hasTargets === true ? TARGET_LABELS.get(name) : undefined
  }

  #byError(operation: Operation): ByError {
    let byError = this.#counted.get(operation)
    if (byError === undefined) this.#counted.set(operation, (byError = new Map()))
    return byError
  }

  #byTarget(operation: Operation, target: string): ByError {
    let byTarget = this.#targeted.get(operation)
    if (byTarget === undefined) this.#targeted.set(operation, (byTarget = new Map()))
    let byError = byTarget.get(target)
    if (byError === undefined) {
      // Catalogs change: outdated names are dropped with the others, which are looked up again.
      if (byTarget.size >= MOST_TARGETS) byTarget.clear()
      byTarget.set(target, (byError = new Map()))
    }
    return byError
  }

  #find(operation: Operation, error: string | undefined, target: string | undefined): Counted {
    const { kind, name, tool, attributes } = operation
    const { of = BACKEND, hasTargets } = this.#measureOf(kind as Measured)
    const histogram = this.#histogram(kind as Measured)
    if (hasTargets === true) {
      const isTool = TARGET_LABELS.get(name) === TOOL
      const shown = target?.slice(0, LONGEST_LABEL)
      const targets = [isTool ? shown : undefined, isTool ? undefined : shown]
      return { duration: histogram.series([name, error, ...targets]), tool: undefined }
    }
    const first = attributes?.[of]?.toString()
    return {
      duration: histogram.series([first, name, error]),
      tool: tool === undefined ? undefined : this.#toolCalls.series([first, tool, error]),
    }
  }

  #measureOf(kind: Measured): DurationMetric {
    return kind === 'request' ? requests[this.#role] : others[kind]
  }

  #histogram(kind: Measured): Metric {
    let histogram = this.#histograms.get(kind)
    if (histogram === undefined) {
      const { metric: name, description, label, of = BACKEND, bounds = BOUNDS, hasTargets } = this.#measureOf(kind)
      const labels = hasTargets === true ? [label, ERROR, TOOL, PROMPT] : [of, label, ERROR]
      const limits = chooseLimits(kind, hasTargets)
      histogram = this.#metrics.add({ name, unit: 's', description, labels, bounds, ...limits })
      this.#histograms.set(kind, histogram)
    }
    return histogram
  }
}

function chooseLimits(kind: Measured, hasTargets: boolean | undefined): { readonly mostOfFirst?: number } {
  if (hasTargets === true) return { mostOfFirst: MOST_OF_A_METHOD }
  return kind === 'backend-call' || kind === 'exchange' ? { mostOfFirst: MOST_OF_A_BACKEND } : {}
}
