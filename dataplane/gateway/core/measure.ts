import type { BackendStatus, CatalogGateStatus, ToolSearchStatus } from '../../config/status.ts'
import { configRefused, gauge, type MetricDescription, type Reading } from '../../telemetry/metrics/family.ts'
import type { Measured } from '../../telemetry/metrics/metrics.ts'
import type { Decisions } from '../access/authorizer.ts'
import { countShownTools } from '../aggregation/catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { definitionCounts } from './approvals.ts'
import type { Gateway } from './gateway.ts'

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
const policy: MetricDescription = {
  name: 'portico.policy.decisions',
  unit: '{decision}',
  description: 'What policies have decided.',
  type: 'counter',
}

const catalogAge = gauge(
  'portico.catalog.age',
  's',
  'The time since a registry last confirmed what a catalog gate knows of it.',
)

const searches: MetricDescription = {
  name: 'portico.tool_search.searches',
  unit: '{search}',
  description: 'Searches for tools, by how they were made.',
  type: 'counter',
}

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
      ...ofProcess(gateway),
      ...shared.backends.flatMap((backend) => ofBackend(backend, shown.get(backend.name) ?? 0)),
      ...shared.backends.flatMap((backend) => ofDefinitions(backend, gateway.views.backendsOf(backend.name))),
      ...(setup.authorizer === undefined ? [] : ofPolicies(setup.authorizer.decisions)),
      ...(search === undefined ? [] : ofSearches(search.status)),
      ...(gate === undefined ? [] : ofGate(gate.status)),
    ],
    known: new Map([
      [BACKEND, new Set(setup.config.backends.map(({ name }) => name))],
      [REGISTRY, new Set((setup.config.catalogGate?.registries ?? []).map(({ name }) => name))],
    ]),
  }
}

function ofProcess({
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

function ofBackend({ name, health: its }: Backend, shown: number): Reading[] {
  const labels = { [BACKEND]: name }
  const states = (metric: MetricDescription, all: readonly string[], now: string) =>
    all.map((state) => ({ metric, labels: { ...labels, [STATE]: state }, value: state === now ? 1 : 0 }))
  return [
    { metric: tools, labels, value: shown },
    ...states(health, healthStates, its.state),
    ...states(circuit, circuitStates, its.circuit),
  ]
}

const ofDefinitions = (backend: Backend, variants: readonly Backend[]): Reading[] =>
  Object.entries(definitionCounts(backend, variants) ?? {}).map(([state, value]) => ({
    metric: definitions,
    labels: { [BACKEND]: backend.name, [STATE]: state },
    value,
  }))

const ofPolicies = ({ counts }: Decisions): Reading[] =>
  Object.entries(counts).flatMap(([action, decided]) =>
    (['allowed', 'denied'] as const).map((result) => ({
      metric: policy,
      labels: { 'portico.action': action, 'portico.result': result },
      value: decided[result],
    })),
  )

const ofGate = ({ registries }: CatalogGateStatus): Reading[] =>
  registries.flatMap(({ name, ageSeconds }) =>
    ageSeconds === null ? [] : [{ metric: catalogAge, labels: { [REGISTRY]: name }, value: ageSeconds }],
  )

function ofSearches({ searches: all, embeddings }: ToolSearchStatus): Reading[] {
  const { hybridSearches = 0, wordsAlone = 0 } = embeddings ?? {}
  const made = { words: all - hybridSearches - wordsAlone, hybrid: hybridSearches, words_alone: wordsAlone }
  return Object.entries(made).map(([result, value]) => ({
    metric: searches,
    labels: { 'portico.result': result },
    value,
  }))
}
