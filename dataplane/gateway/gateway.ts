import type { Logger } from 'pino'
import { isLoopback } from '../config/check/url.ts'
import type { GatewayConfig } from '../config/gateway.ts'
import type { Finding, Loaded } from '../config/load.ts'
import type { Observe } from '../telemetry/observe.ts'
import { buildCatalog, type Catalog } from './aggregation/catalog.ts'
import { backendOfUri, buildOfferCatalog, type OfferCatalog } from './aggregation/offer-catalog.ts'
import { shapeOf } from './aggregation/shape.ts'
import type { Backend } from './backends/backend.ts'
import { Backends } from './backends/backends.ts'
import { failurePolicy } from './backends/failure-policy.ts'
import { InFlight } from './backends/in-flight.ts'
import { ParkedCalls } from './backends/parked-calls.ts'
import { TaskIds } from './backends/task-ids.ts'
import { relayUnasked } from './backends/unasked.ts'
import { type ChangedList, Listeners } from './endpoint/listeners.ts'
import { notificationText } from './mcp/rpc-text.ts'
import { Sessions } from './sessions/sessions.ts'
import { SharedKeys } from './sessions/shared-keys.ts'
import { openSessionStorage, type SessionStorage, storageKey } from './sessions/storage.ts'
import { Streams } from './sessions/streams.ts'
import { type Setup, setUp } from './setup.ts'

export interface GatewayOptions {
  readonly listenerUrl: string
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
}

const SWEEP_MS = 20_000
const DEFAULT_TIMEOUT = '30s'

/** One gateway: what is in force, and what lives on while that changes. */
export class Gateway {
  readonly log: Logger
  readonly observe: Observe
  readonly sessions: Sessions
  readonly inFlight = new InFlight()
  /** For what clients bring back to whichever replica. */
  readonly keys = new SharedKeys()
  readonly parked = new ParkedCalls(this)
  readonly taskIds = new TaskIds(this.keys)
  /** Streams of events to clients with sessions. */
  readonly streams = new Streams()
  /** Modern clients that listen. */
  readonly listeners = new Listeners()
  setup: Setup
  /** What is wrong with a newer configuration that was refused; empty where the newest one is in force. */
  refused: readonly Finding[] = []
  catalog: Catalog
  offers: OfferCatalog
  readonly #options: GatewayOptions
  readonly #backends: Backends
  readonly #sweep: NodeJS.Timeout
  readonly #closing = new AbortController()
  #conflicts: readonly string[] = []

  constructor(loaded: Loaded<GatewayConfig>, options: GatewayOptions) {
    this.log = options.log
    this.observe = options.observe
    this.#options = options
    this.#backends = new Backends({ log: options.log, onChange: () => this.#show() })
    this.setup = setUp(loaded, options)
    const storage = openSessionStorage(loaded.config, loaded.directory, options.log)
    this.#share(storage)
    this.sessions = new Sessions({
      storage,
      backendNamed: (name) => this.backendNamed(name),
      watch: (uri, onUpdate) => {
        const backend = backendOfUri(this.offers, uri)
        return backend?.era?.era === 'modern' ? backend.watched.add([uri], onUpdate) : undefined
      },
      onHeard: (session, link, bytes) => relayUnasked(this, session, link, bytes),
      onEnded: (session) => this.streams.forgetAll(session),
      onCancelled: (session, request) => this.inFlight.find(session, request)?.cancel(),
    })
    this.catalog = buildCatalog(loaded.config, [])
    this.offers = buildOfferCatalog(loaded.config, [])
    this.#follow()
    this.#sweep = setInterval(() => this.#keep(), SWEEP_MS)
    this.#sweep.unref()
  }

  /** Puts another configuration in force. Sessions and unchanged backends live on. */
  apply(loaded: Loaded<GatewayConfig>): void {
    const before = this.setup
    this.refused = []
    this.setup = setUp(loaded, this.#options, before)
    if (before.authenticate !== this.setup.authenticate) void before.authenticate.close()
    this.#followStorage(before)
    this.#follow()
  }

  #followStorage(before: Setup): void {
    const { config, directory } = this.setup
    if (storageKey(before.config, before.directory) === storageKey(config, directory)) return
    const storage = openSessionStorage(config, directory, this.log)
    this.#share(storage)
    this.sessions
      .moveTo(storage)
      .catch((error) => this.log.error({ err: error }, 'sessions could not be moved to the new storage'))
  }

  /** Shares with other replicas what clients without a session may bring to any of them. */
  #share({ bus, agreeOnSecret }: SessionStorage): void {
    this.keys.follow(agreeOnSecret)
    this.parked.follow(bus)
    this.streams.follow(bus)
  }

  /** Makes backends and catalog what the configuration says. */
  #follow(): void {
    const { config, directory, serverInfo } = this.setup
    const common = {
      directory,
      defaultTimeout: config.timeouts?.default ?? DEFAULT_TIMEOUT,
      client: { name: 'portico', version: serverInfo.version },
    }
    const gone = this.#backends.follow(config.backends, common, failurePolicy(config))
    this.#show()
    for (const backend of gone) {
      this.sessions.forget(backend)
      backend.close().catch((error) => this.log.debug({ backend: backend.name, err: error }, 'closing a backend'))
    }
  }

  /** Shows what the backends show now, and tells listening clients where that is something else. */
  #show(): void {
    const { catalog, offers } = this
    const { config } = this.setup
    this.offers = buildOfferCatalog(config, this.#backends.all)
    this.catalog = this.#goodCatalog(buildCatalog(config, this.#backends.all, (uri) => backendOfUri(this.offers, uri)))
    if (!this.catalog.legacyList.equals(catalog.legacyList)) {
      const { warnings, withheldPages } = this.catalog
      if (warnings.length > 0) this.log.warn({ names: warnings }, 'tool names clash')
      if (withheldPages.length > 0) this.log.warn({ tools: withheldPages }, 'pages of apps are withheld')
      this.#changed('tools')
    }
    const { lists } = this.offers
    if (!lists.prompts.legacy.equals(offers.lists.prompts.legacy)) this.#changed('prompts')
    const same = (kind: 'resources' | 'templates') => lists[kind].legacy.equals(offers.lists[kind].legacy)
    if (!same('resources') || !same('templates')) this.#changed('resources')
  }

  #changed(list: ChangedList): void {
    this.sessions.broadcast(notificationText(`notifications/${list}/list_changed`))
    this.listeners.changed(list)
  }

  /**
   * The catalog to show in place of `next`. Where names clash that somebody has to tell apart, what was good goes on,
   * as far as it is still there.
   */
  #goodCatalog(next: Catalog): Catalog {
    this.#conflicts = next.conflicts
    if (next.conflicts.length === 0 || !this.#keepsServing(this.catalog)) return next
    this.log.warn({ names: next.conflicts }, 'tool names clash, the last good set is shown')
    return this.catalog
  }

  /** Whether a catalog is one without clashes, and all of its backends are there. */
  #keepsServing({ routes, conflicts }: Catalog): boolean {
    // What comes first at the start is a matter of chance, and no set to go back to.
    if (conflicts.length > 0 || !this.allAsked) return false
    const backends = new Set(this.#backends.all)
    return [...routes.values()].every(({ backend }) => backends.has(backend))
  }

  /** What people should know of, though it serves. */
  #problems(): object[] {
    const told = (code: string, messages: readonly string[]) =>
      messages.map((message) => ({ severity: 'warning', code, message }))
    return [
      ...told('AggregationConflict', this.#conflicts),
      ...told('ToolRenamed', this.catalog.warnings),
      ...told('AppWithheld', this.catalog.withheldPages),
    ]
  }

  #keep(): void {
    this.sessions.keepAlive()
    this.listeners.keepAlive()
    this.streams.sweep()
    void this.keys.renew()
    const now = Date.now()
    for (const backend of this.#backends.all) backend.callerLinks.sweep(now)
  }

  /** Whether every backend has been asked for its tools. */
  get allAsked(): boolean {
    return this.#backends.allTried
  }

  /**
   * Whether traffic may come. A proxy waits for the server in its own pod, which starts after it: a rollout would send
   * callers to a pod that can't serve them yet. A remote server that is away makes nobody unready.
   */
  get isReady(): boolean {
    const inThisPod = ({ url }: Backend) => url.protocol === 'stdio:' || isLoopback(url)
    return this.allAsked && !(this.#neverReached && this.#backends.all.every(inThisPod))
  }

  /** Whether this is a proxy whose server has never been reached: nothing is known of its tools, not even that it has none. */
  get #neverReached(): boolean {
    return this.setup.config.role === 'proxy' && this.#backends.all.every(({ silent }) => silent)
  }

  /** Whether lists fail now: there is nothing to show, or a part is missing and only the whole is wanted. */
  get isSilent(): boolean {
    if (this.#neverReached) return true
    if (this.setup.config.failureHandling?.partialFailureMode !== 'fail') return false
    return this.#backends.all.some(({ tools, health }) => tools === undefined || health.state === 'unhealthy')
  }

  /** Settles when every backend has been asked, or has had its time. */
  firstLists(): Promise<void> {
    return this.#backends.firstLists()
  }

  backendNamed(name: string): Backend | undefined {
    return this.#backends.all.find((backend) => backend.name === name)
  }

  refreshTools(backend: Backend): void {
    this.#backends.refresh(backend)
  }

  /** Whether a backend that has not answered yet could have a tool of this name. */
  mayComeFromSilent(name: string): boolean {
    return this.#backends.all.some((backend) => {
      if (backend.tools !== undefined) return false
      const { prefix, filter, hidden } = shapeOf(this.setup.config, backend.name)
      return !hidden && name.startsWith(prefix) && (filter === undefined || filter.has(name.slice(prefix.length)))
    })
  }

  /** What the admin listener tells. */
  status(): object {
    const shown = new Map<Backend, number>()
    for (const { backend } of this.catalog.routes.values()) shown.set(backend, (shown.get(backend) ?? 0) + 1)
    return {
      config: this.setup.hash,
      refused: this.refused,
      problems: this.#problems(),
      sessions: this.sessions.count,
      sessionStorage: this.sessions.provider,
      backends: this.#backends.all.map((backend) => ({
        name: backend.name,
        url: backend.url.href,
        health: backend.health.state,
        revision: backend.revision,
        circuit: backend.health.circuit,
        lastError: backend.health.lastError ?? null,
        tools: shown.get(backend) ?? 0,
        latencyMs: backend.tools === undefined ? null : backend.health.latencyMs,
      })),
    }
  }

  /** Aborted when the gateway begins to stop: what would go on for ever ends here, and nothing of that kind begins. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Begins to stop: ends streams, so that clients open them elsewhere; calls go on. */
  drain(): void {
    this.#closing.abort()
    this.sessions.endStreams()
    this.listeners.end()
  }

  /** Tells sessions, then lets go of the backends. */
  async close(): Promise<void> {
    clearInterval(this.#sweep)
    this.sessions.close()
    await Promise.all([this.#backends.close(), this.setup.authenticate.close()])
  }
}
