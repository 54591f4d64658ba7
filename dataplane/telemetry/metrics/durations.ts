import { type Operation, OTHER_ERROR, type Outcome } from '../observe.ts'
import type { Role } from '../options.ts'
import type { Metric } from './metric.ts'
import type { Metrics } from './metrics.ts'
import type { Series } from './series.ts'

/** Bounds in seconds that the semantic conventions for MCP advise. */
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
/** Those that the semantic conventions for databases advise. */
const STORE_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
const BACKEND = 'portico.backend'
const PROVIDER = 'portico.provider'
const WORKFLOW = 'portico.workflow'
const TOOL = 'gen_ai.tool.name'
const ERROR = 'error.type'
/** Most series of one backend in a metric: more than that is its own affair, and no other's series. */
const MOST_OF_A_BACKEND = 500

interface Measure {
  readonly metric: string
  readonly description: string
  /** What the operation's name is called in it. */
  readonly label: string
  /** The attribute of the operation that is a label as well; absent: its backend. */
  readonly of?: string
  readonly bounds?: readonly number[]
}

const requests: Readonly<Record<Role, Measure>> = {
  gateway: {
    metric: 'mcp.server.operation.duration',
    description: 'Duration of an MCP request as its receiver sees it.',
    label: 'mcp.method.name',
  },
  registry: {
    metric: 'portico.registry.request.duration',
    description: 'Duration of a request to the registry.',
    label: 'portico.operation',
  },
}

/** Operations that are measured; a call that is made for another request is a part of that, and of a call of a backend. */
type Measured = Exclude<Operation['kind'], 'inner-call'>

const others: Readonly<Record<Exclude<Measured, 'request'>, Measure>> = {
  'auth-request': {
    metric: 'portico.auth_server.request.duration',
    description: 'Duration of a request to the authorization server.',
    label: 'portico.operation',
  },
  provider: {
    metric: 'portico.provider.duration',
    description: 'Duration of what an identity provider is asked.',
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
    description: 'Duration of finding out who a caller is.',
    label: 'portico.decision',
  },
  exchange: {
    metric: 'portico.credential.duration',
    description: 'How long calls wait until the credential of their caller is there.',
    label: 'portico.credential',
  },
  limit: {
    metric: 'portico.rate_limit.duration',
    description: 'Duration of finding out whether a tool call may be made now.',
    label: 'portico.rate_limit.store',
  },
  sync: { metric: 'portico.sync.duration', description: 'Duration of a sync.', label: 'portico.source' },
  store: {
    metric: 'db.client.operation.duration',
    description: 'Duration of what a store is asked.',
    label: 'db.system.name',
    of: 'db.operation.name',
    bounds: STORE_BOUNDS,
  },
}

/** Where an operation that ended one way is counted. */
interface Counted {
  readonly duration: Series
  /** Of a call of a tool. */
  readonly tool: Series | undefined
}

/**
 * How long operations take, by what they are and how they end, and how often each tool is called. An operation object
 * that comes again finds its series without a look at its names.
 */
export class Durations {
  readonly #role: Role
  readonly #metrics: Metrics
  readonly #histograms = new Map<Operation['kind'], Metric>()
  readonly #toolCalls: Metric
  readonly #counted = new WeakMap<Operation, Map<string | undefined, Counted>>()

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

  /** Counts one operation that took so many milliseconds. */
  record(operation: Operation, { result, code }: Outcome, ms: number): void {
    if (operation.kind === 'inner-call') return
    const { duration, tool } = this.#countedAs(operation, result === 'ok' ? undefined : (code ?? OTHER_ERROR))
    duration.add(ms / 1000)
    tool?.add(1)
  }

  #countedAs(operation: Operation, error: string | undefined): Counted {
    let byError = this.#counted.get(operation)
    if (byError === undefined) this.#counted.set(operation, (byError = new Map()))
    let counted = byError.get(error)
    if (counted === undefined || counted.duration.ended || counted.tool?.ended === true)
      byError.set(error, (counted = this.#find(operation, error)))
    return counted
  }

  #find({ kind, name, tool, attributes }: Operation, error: string | undefined): Counted {
    const { of = BACKEND } = this.#measureOf(kind as Measured)
    const first = attributes?.[of]?.toString()
    return {
      duration: this.#histogram(kind as Measured).series([first, name, error]),
      tool: tool === undefined ? undefined : this.#toolCalls.series([first, tool, error]),
    }
  }

  #measureOf(kind: Measured): Measure {
    return kind === 'request' ? requests[this.#role] : others[kind]
  }

  #histogram(kind: Measured): Metric {
    let histogram = this.#histograms.get(kind)
    if (histogram === undefined) {
      const { metric: name, description, label, of = BACKEND, bounds = BOUNDS } = this.#measureOf(kind)
      const labels = [of, label, ERROR]
      const ofBackends = kind === 'backend-call' || kind === 'exchange'
      const limits = ofBackends ? { mostOfFirst: MOST_OF_A_BACKEND } : {}
      histogram = this.#metrics.add({ name, unit: 's', description, labels, bounds, ...limits })
      this.#histograms.set(kind, histogram)
    }
    return histogram
  }
}
