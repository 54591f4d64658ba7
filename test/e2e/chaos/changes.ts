/** The expected objects of the namespace and their changes, which are the same in the same order for the same seed. */
import { createNumbers } from '../../support/random.ts'

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: Record<string, unknown> & {
    readonly telemetryConfigRef?: { readonly name: string }
    readonly groupRef?: { readonly name: string }
  }
}

/** One change: objects that are created or changed, in this order, then objects that are deleted. */
export interface Change {
  readonly what: string
  readonly apply: readonly Manifest[]
  readonly remove: readonly Manifest[]
}

const BASE = 'base'
const CHURN = 'churn'
/** Tools that changes of the filter of the gateway `front` show or hide. It always shows `echo`, and never `get-env`. */
const SHOWN = ['get-sum', 'get-structured-content', 'get-tiny-image']
const MOST_CONFIGS = 3

const manifest = (kind: string, name: string, spec: Manifest['spec']): Manifest => ({
  apiVersion: 'portico.dev/v1beta1',
  kind,
  metadata: { name },
  spec,
})

const group = (name: string, description: string) => manifest('MCPGroup', name, { description })
const telemetry = (name: string, value: string) =>
  manifest('MCPTelemetryConfig', name, { openTelemetry: { enabled: false, resourceAttributes: { step: value } } })
const front = (filter: readonly string[]) =>
  manifest('VirtualMCPServer', 'front', {
    groupRef: { name: BASE },
    incomingAuth: { type: 'anonymous' },
    config: { aggregation: { tools: [{ workload: 'everything', filter: ['echo', ...filter] }] } },
  })

/** Workloads that are created, changed and deleted. */
const CHURNED: Readonly<Record<string, (namespace: string) => Manifest>> = {
  'proxy-1': (namespace) => proxy('proxy-1', namespace),
  'proxy-2': (namespace) => proxy('proxy-2', namespace),
  'gateway-1': () =>
    manifest('VirtualMCPServer', 'gateway-1', { groupRef: { name: CHURN }, incomingAuth: { type: 'anonymous' } }),
  clock: () =>
    manifest('MCPServer', 'clock', {
      image: 'portico-samples/clock:1.0.0',
      transport: 'streamable-http',
      mcpPort: 8080,
      groupRef: { name: CHURN },
    }),
}

const proxy = (name: string, namespace: string) =>
  manifest('MCPRemoteProxy', name, {
    remoteUrl: `http://mcp-everything.${namespace}.svc.cluster.local:8080/mcp`,
    groupRef: { name: CHURN },
  })

/** Objects that exist from beginning to end; the gateway's filter changes. */
const base = (): readonly Manifest[] => [
  group(BASE, 'stays'),
  group(CHURN, 'stays'),
  manifest('MCPServer', 'everything', {
    image: 'mcp/everything:2026.8.31',
    args: ['node', 'dist/index.js', 'streamableHttp'],
    transport: 'streamable-http',
    mcpPort: 3001,
    groupRef: { name: BASE },
  }),
  front([]),
]

const buildKey = ({ kind, metadata }: Manifest) => `${kind}/${metadata.name}`
/** Returns the config to which a workload refers. */
export const readConfigName = ({ spec }: Manifest): string | undefined => spec.telemetryConfigRef?.name
export const readGroupName = ({ spec }: Manifest): string | undefined => spec.groupRef?.name

export class Changes {
  readonly #namespace: string
  readonly #below: (most: number) => number
  readonly #wanted = new Map<string, Manifest>()
  #step = 0

  constructor(namespace: string, seed: number) {
    this.#namespace = namespace
    this.#below = createNumbers(seed)
  }

  /** Returns all expected objects after the changes so far. */
  get wanted(): readonly Manifest[] {
    return [...this.#wanted.values()]
  }

  first(): Change {
    return this.#take({ what: 'the first objects', apply: base(), remove: [] })
  }

  next(): Change {
    this.#step += 1
    const kinds = [() => this.#workload(), () => this.#workload(), () => this.#config(), () => this.#others()]
    return this.#take(this.#pick(kinds)())
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#below(items.length)] as T
  }

  #take(change: Change): Change {
    for (const one of change.apply) this.#wanted.set(buildKey(one), one)
    for (const one of change.remove) this.#wanted.delete(buildKey(one))
    return change
  }

  #ofKind = (kind: string) => this.wanted.filter((one) => one.kind === kind)

  /** Creates a workload, changes its config or its pods, or deletes it. */
  #workload(): Change {
    const [name, make] = this.#pick(Object.entries(CHURNED))
    const created = make(this.#namespace)
    const present = this.#wanted.has(buildKey(created))
    if (present && this.#below(3) === 0) return { what: `delete ${name}`, apply: [], remove: [created] }
    const configs = this.#ofKind('MCPTelemetryConfig').map(({ metadata }) => metadata.name)
    const config = this.#pick([undefined, ...configs])
    const spec = {
      ...created.spec,
      ...(config !== undefined && { telemetryConfigRef: { name: config } }),
      ...(this.#below(4) === 0 && {
        podTemplateSpec: { metadata: { annotations: { 'example.com/step': String(this.#step) } } },
      }),
    }
    return { what: `${present ? 'change' : 'create'} ${name}`, apply: [{ ...created, spec }], remove: [] }
  }

  /** Creates a config together with a workload that refers to it, changes one, or deletes one that is not in use. */
  #config(): Change {
    const configs = this.#ofKind('MCPTelemetryConfig')
    const used = new Set(this.wanted.map(readConfigName))
    const unused = configs.filter(({ metadata }) => !used.has(metadata.name))
    const [last] = unused
    if (last && (configs.length >= MOST_CONFIGS || this.#below(2) === 0))
      return { what: `delete ${last.metadata.name}`, apply: [], remove: [last] }
    if (configs.length >= MOST_CONFIGS) {
      const { name } = this.#pick(configs).metadata
      return { what: `change ${name}`, apply: [telemetry(name, String(this.#step))], remove: [] }
    }
    // The name is new, because an earlier config may still be terminating while workloads refer to it.
    const created = telemetry(`config-${this.#step}`, String(this.#step))
    const [name, make] = this.#pick(Object.entries(CHURNED))
    const built = make(this.#namespace)
    const user = { ...built, spec: { ...built.spec, telemetryConfigRef: { name: created.metadata.name } } }
    return { what: `create ${created.metadata.name} for ${name}`, apply: [user, created], remove: [] }
  }

  /** Changes the gateway's filter, or a group without members. */
  #others(): Change {
    if (this.#below(2) === 0) {
      const filter = SHOWN.filter(() => this.#below(2) === 0)
      return { what: `front shows ${filter.join(', ') || 'echo alone'}`, apply: [front(filter)], remove: [] }
    }
    const spare = group('spare', String(this.#step))
    if (this.#wanted.has(buildKey(spare)) && this.#below(2) === 0)
      return { what: 'delete spare', apply: [], remove: [spare] }
    return { what: 'apply spare', apply: [spare], remove: [] }
  }
}
