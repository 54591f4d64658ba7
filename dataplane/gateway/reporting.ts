import type { Logger } from 'pino'
import manifest from '../../package.json' with { type: 'json' }
import { Audit } from '../audit/audit.ts'
import type { GatewayConfig } from '../config/gateway.ts'
import { type Finding, findingLine, type Loaded } from '../config/load.ts'
import type { BackendStatus, CatalogGateStatus, ToolSearchStatus } from '../config/status.ts'
import { configRefused, counter, gauge, type MetricDescription, type Reading } from '../telemetry/metrics/family.ts'
import type { Measure, Measured } from '../telemetry/metrics/metrics.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { ExportTimes } from '../telemetry/options.ts'
import { Telemetry } from '../telemetry/telemetry.ts'
import type { Decisions } from './access/authorizer.ts'
import { countShownTools } from './aggregation/catalog.ts'
import type { Backend } from './backends/backend/backend.ts'
import { definitionCounts } from './core/approvals.ts'
import type { Gateway } from './core/gateway.ts'

interface ReportingOptions {
  /** The intervals at which telemetry is sent. */
  readonly exports?: ExportTimes | undefined
  /** Measures the state when metrics are read. */
  readonly measure?: Measure | undefined
  /** Replaces the observation of telemetry. */
  readonly observe?: Observe
}

/** The reports on the gateway's work: telemetry and the audit log, as the configuration sets them. */
export class Reporting {
  readonly telemetry: Telemetry
  readonly audit: Audit
  readonly observe: Observe
  readonly #log: Logger

  constructor(log: Logger, { exports, observe, measure }: ReportingOptions) {
    this.telemetry = new Telemetry({ ...exports, role: 'gateway', version: manifest.version, log, measure })
    this.audit = new Audit(log)
    this.observe = observe ?? this.telemetry.observe
    this.#log = log
  }

  /** Applies a configuration. Never rejects. */
  async apply({ config, directory }: Loaded<GatewayConfig>): Promise<void> {
    const { telemetry, audit, name: workload, namespace } = config
    await Promise.all([
      this.telemetry.apply({ telemetry, directory, workload, namespace }),
      this.audit.apply({ audit, directory, workload }),
    ])
  }

  /** Applies another configuration and reports it. */
  async reload(next: Loaded<GatewayConfig>): Promise<void> {
    await this.apply(next)
    this.#log.info({ config: next.hash }, 'another configuration is in force')
    this.audit.reloaded(next.hash)
  }

  /** Reports that another configuration was refused. */
  refused(findings: readonly Finding[]): void {
    this.#log.error(
      { findings: findings.map(findingLine) },
      'the new configuration is refused; the previous one stays in use',
    )
    this.audit.reloaded(undefined)
  }

  /** The reporting part of `/status`. */
  status(): object {
    return { ...this.telemetry.status(), ...this.audit.status() }
  }

  /** Sends and writes the rest, as far as that is possible at once. */
  async close(): Promise<void> {
    await Promise.all([this.telemetry.close(), this.audit.close()])
  }
}

const sessions = gauge('portico.sessions', '{session}', 'Open sessions with clients that this replica knows.')
const streams = gauge('portico.streams', '{stream}', 'Streams of events that clients read outside of a call.')
const calls = gauge('portico.calls.active', '{call}', 'Calls of backends in flight.')
const held = gauge('portico.memory.held', 'By', 'Memory that callers hold by bodies, sessions and answers.')
const limit = gauge('portico.memory.limit', 'By', 'Memory that they may hold.')
const storage = gauge('portico.session.storage.up', '', 'Whether the configured session storage is in use: 1 or 0.')
const tools = gauge('portico.backend.tools', '{tool}', 'Tools of a backend that are shown.')
const health = gauge(
  'portico.backend.health',
  '',
  'The state of a backend: 1 for the one that it is in, 0 for the others.',
)
const circuit = gauge('portico.backend.circuit', '', 'The circuit of a backend: 1 for the state that it is in.')
const definitions = gauge(
  'portico.definitions',
  '{definition}',
  'Definitions of a backend, by whether they are approved.',
)
const policy = counter('portico.policy.decisions', '{decision}', 'What policies have decided.')

const catalogAge = gauge(
  'portico.catalog.age',
  's',
  'The time since a registry last confirmed what a catalog gate knows of it.',
)

const searches = counter('portico.tool_search.searches', '{search}', 'Searches for tools, by how they were made.')

const healthStates = [
  'healthy',
  'degraded',
  'unhealthy',
  'unauthenticated',
  'unknown',
] as const satisfies readonly BackendStatus['health'][]
const circuitStates = ['closed', 'half-open', 'open'] as const satisfies readonly BackendStatus['circuit'][]

const BACKEND = 'portico.backend'
const STATE = 'portico.state'
const REGISTRY = 'portico.registry'

/** Measures a gateway's state when its metrics are read. The labels are names in its configuration, and states. */
export function measureGateway(gateway: Gateway): Measured {
  const { shared, setup, search, gate } = gateway
  const shown = countShownTools(shared.catalog)
  return {
    readings: [
      ...measureProcess(gateway),
      ...shared.backends.flatMap((backend) => measureBackend(backend, shown.get(backend.name) ?? 0)),
      ...shared.backends.flatMap((backend) => measureDefinitions(backend, gateway.views.backendsOf(backend.name))),
      ...(setup.authorizer === undefined ? [] : measurePolicies(setup.authorizer.decisions)),
      ...(search === undefined ? [] : measureSearches(search.status)),
      ...(gate === undefined ? [] : measureGate(gate.status)),
    ],
    known: new Map([
      [BACKEND, new Set(setup.config.backends.map(({ name }) => name))],
      [REGISTRY, new Set((setup.config.catalogGate?.registries ?? []).map(({ name }) => name))],
    ]),
  }
}

function measureProcess({
  sessions: kept,
  listeners,
  inFlight,
  budget,
  refused: findings,
  storageProblem,
}: Gateway): Reading[] {
  const one = (metric: MetricDescription, value: number, labels: Reading['labels'] = {}) => ({ metric, labels, value })
  return [
    one(sessions, kept.count),
    one(streams, kept.openStreams.filter(({ isConnected }) => isConnected).length, { 'portico.stream': 'session' }),
    one(streams, listeners.all.length, { 'portico.stream': 'listen' }),
    one(calls, inFlight.count),
    one(held, budget.held),
    one(limit, budget.limits.total + budget.limits.reserve),
    one(configRefused, findings.length > 0 ? 1 : 0),
    one(storage, storageProblem === undefined ? 1 : 0),
  ]
}

function measureBackend({ name, health: its }: Backend, shown: number): Reading[] {
  const labels = { [BACKEND]: name }
  const states = (metric: MetricDescription, all: readonly string[], now: string) =>
    all.map((state) => ({ metric, labels: { ...labels, [STATE]: state }, value: state === now ? 1 : 0 }))
  return [
    { metric: tools, labels, value: shown },
    ...states(health, healthStates, its.state),
    ...states(circuit, circuitStates, its.circuit),
  ]
}

const measureDefinitions = (backend: Backend, variants: readonly Backend[]): Reading[] =>
  Object.entries(definitionCounts(backend, variants) ?? {}).map(([state, value]) => ({
    metric: definitions,
    labels: { [BACKEND]: backend.name, [STATE]: state },
    value,
  }))

const measurePolicies = ({ counts }: Decisions): Reading[] =>
  Object.entries(counts).flatMap(([action, decided]) =>
    (['allowed', 'denied'] as const).map((result) => ({
      metric: policy,
      labels: { 'portico.action': action, 'portico.result': result },
      value: decided[result],
    })),
  )

const measureGate = ({ registries }: CatalogGateStatus): Reading[] =>
  registries.flatMap(({ name, ageSeconds }) =>
    ageSeconds === null ? [] : [{ metric: catalogAge, labels: { [REGISTRY]: name }, value: ageSeconds }],
  )

function measureSearches({ searches: all, embeddings }: ToolSearchStatus): Reading[] {
  const { hybridSearches = 0, wordsAlone = 0 } = embeddings ?? {}
  const made = { words: all - hybridSearches - wordsAlone, hybrid: hybridSearches, words_alone: wordsAlone }
  return Object.entries(made).map(([result, value]) => ({
    metric: searches,
    labels: { 'portico.result': result },
    value,
  }))
}
