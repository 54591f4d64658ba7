import type { Attributes, Histogram, Meter } from '@opentelemetry/api'
import type { Operation, Outcome } from '../observe.ts'
import { OTHER_ERROR } from './spans.ts'

type Role = 'gateway' | 'registry'

/** Bounds in seconds that the semantic conventions for MCP advise. */
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

interface Measure {
  readonly metric: string
  readonly description: string
  /** What the operation's name is called in it. */
  readonly label: string
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

const others: Readonly<Record<Exclude<Operation['kind'], 'request'>, Measure>> = {
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
  reconcile: { metric: 'portico.reconcile.duration', description: 'Duration of a reconcile.', label: 'portico.kind' },
}

/** Attributes that are kept; the SDK keeps as many series, and counts what is beyond them as one. */
const MOST_SERIES = 2_000

export const cardinalityLimit = MOST_SERIES

/** How long operations take, by what they are and how they end: one histogram for each kind of operation. */
export class Durations {
  readonly #role: Role
  readonly #meter: Meter
  readonly #histograms = new Map<Operation['kind'], Histogram>()
  /** Attributes of series, made once. */
  readonly #series = new Map<string, Attributes>()

  constructor(role: Role, meter: Meter) {
    this.#role = role
    this.#meter = meter
  }

  /** Counts one operation that took so many milliseconds. */
  record(operation: Operation, { result, code }: Outcome, ms: number): void {
    const error = result === 'ok' ? undefined : (code ?? OTHER_ERROR)
    this.#histogram(operation.kind).record(ms / 1000, this.#attributes(operation, error))
  }

  #measureOf(kind: Operation['kind']): Measure {
    return kind === 'request' ? requests[this.#role] : others[kind]
  }

  #histogram(kind: Operation['kind']): Histogram {
    let histogram = this.#histograms.get(kind)
    if (histogram === undefined) {
      const { metric, description } = this.#measureOf(kind)
      const advice = { explicitBucketBoundaries: BOUNDS }
      histogram = this.#meter.createHistogram(metric, { unit: 's', description, advice })
      this.#histograms.set(kind, histogram)
    }
    return histogram
  }

  #attributes(operation: Operation, error: string | undefined): Attributes {
    const { kind, name, attributes } = operation
    const backend = attributes?.['portico.backend'] ?? ''
    const key = `${kind} ${name} ${backend} ${error ?? ''}`
    const known = this.#series.get(key)
    if (known !== undefined) return known
    const made: Attributes = { ...attributes, [this.#measureOf(kind).label]: name }
    if (error !== undefined) made['error.type'] = error
    if (this.#series.size < MOST_SERIES) this.#series.set(key, made)
    return made
  }
}
