import type { Logger } from 'pino'
import { gateDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { Auditing } from '../../audit/event.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Finding, Loaded } from '../../config/load.ts'
import { Issuers } from '../../identity/issuers.ts'
import { Retired } from '../../identity/retired.ts'
import { Budget } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import { ClientRequests } from '../../server/listen/connections.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { Backends } from '../backends/backends.ts'
import { failurePolicy } from '../backends/health/health.ts'
import { relayUnsolicited } from '../call/input/unsolicited.ts'
import { SuspendedCalls } from '../call/suspended/suspended-calls.ts'
import { TaskIds } from '../call/tasks/tasks.ts'
import { CatalogGate } from '../gate/catalog-gate.ts'
import type { GateDecision } from '../gate/decision.ts'
import { budgetLimits, connectionLimit, rateLimitBytes, usageBytes } from '../limits/memory-limits.ts'
import { RateLimits } from '../rate-limits/rate-limits.ts'
import { InFlight } from '../request/in-flight.ts'
import type { OwnIssuer } from '../request/own-issuer.ts'
import { type Setup, type SetupOptions, setUp } from '../request/setup.ts'
import { TokenWatch } from '../request/token-watch.ts'
import { ToolSearch } from '../search/tool-search.ts'
import { Relays } from '../sessions/relay/relays.ts'
import { Sessions } from '../sessions/sessions.ts'
import { SharedKeys } from '../sessions/store/shared-keys.ts'
import { openSessionStorage, type SessionStorage, StorageFollower, storageKey } from '../sessions/store/storage.ts'
import { Streams } from '../sessions/streams/streams.ts'
import { Usage } from '../usage/usage.ts'
import { WorkflowRuns } from '../workflows/runs.ts'
import { Approvals } from './approvals.ts'
import type { CallerView, CatalogsBySet } from './caller-view.ts'
import { CallerViews } from './caller-views.ts'
import { Listeners, notifyEach, notifyOfChanges, type Seen, type SeenBy, type Shown, toShown } from './list-changes.ts'
import { Proofs } from './proofs.ts'
import { GatedViews, SharedView } from './shared-view.ts'
import { findResource, isWaitingForServer, type View } from './view.ts'

interface GatewayOptions {
  readonly listenerUrl: string
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
  /** The memory limit of this process; absent: the limit that the operator renders for a gateway's container. */
  readonly memoryBytes?: number | undefined
  /** The folder for state on disk. */
  readonly stateDirectory: string
  /** The gateway's own authorization server, if it has one. */
  readonly ownIssuer: OwnIssuer
}

const SWEEP_MS = 20_000
const DEFAULT_TIMEOUT = '30s'

/** A gateway: the current setup, and the state that outlives it. */
export class Gateway {
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
  /** The memory that callers and backends use in this process. */
  readonly budget: Budget
  /** Reports definitions that are not approved. */
  readonly approvals: Approvals
  /** Counts the requests of clients of a proxy in front of this gateway. */
  readonly clientRequests: ClientRequests
  readonly rateLimits: RateLimits
  /** Counts tool calls; undefined unless the configuration enables it. */
  usage: Usage | undefined
  /** The tool search that replaces the list of all tools. */
  search: ToolSearch | undefined
  readonly sessions: Sessions
  readonly inFlight = new InFlight((error) => this.faulted(error, 'the deadline of a call could not be handled'))
  /** The keys for sealed values that clients return to any replica. */
  readonly keys = new SharedKeys()
  readonly proofs: Proofs
  /** The answers to clients whose connection is at another replica. */
  readonly relays = new Relays((error) => this.faulted(error, 'an answer could not be relayed between replicas'))
  readonly suspended = new SuspendedCalls(this.keys, this.inFlight, this.relays)
  readonly taskIds = new TaskIds(this.keys)
  readonly workflows = new WorkflowRuns()
  readonly streams = new Streams(this.relays)
  /** The responses that must end with the tokens of their requests. */
  readonly tokens: TokenWatch
  /** The modern clients with an open subscription. */
  readonly listeners = new Listeners()
  /** The view of all callers without own backends. */
  readonly shared: SharedView
  /** The views of callers. Access to catalogs and backends for a caller always goes through them. */
  readonly views: CallerViews
  /** Decides by the entries of registries who may use which backend; undefined without a catalog gate. */
  gate: CatalogGate | undefined
  /** The filtered views that callers see while the gate withholds backends. */
  readonly gated: GatedViews
  setup: Setup
  /** The findings of a newer configuration that was refused; empty if the newest one is in use. */
  refused: readonly Finding[] = []
  readonly #setupOptions: SetupOptions & Pick<GatewayOptions, 'log' | 'memoryBytes' | 'stateDirectory'>
  readonly #retired = new Retired((error) => this.faulted(error, 'connections to an issuer could not be closed'))
  readonly #backends: Backends
  readonly #storage: StorageFollower
  readonly #sweep: NodeJS.Timeout
  #counts: SessionStorage['usageRows']
  readonly #closing = new AbortController()

  /**
   * Creates the parts. Each part receives the parts that it is built on. It reaches other parts through the functions
   * below this class (`tokensOf` …), which it calls only after `#follow`.
   */
  constructor(loaded: Loaded<GatewayConfig>, options: GatewayOptions) {
    const { log, observe, audit, memoryBytes } = options
    this.log = log
    this.observe = observe
    this.audit = audit
    this.approvals = new Approvals(options)
    this.budget = new Budget(budgetLimits(memoryBytes))
    this.clientRequests = new ClientRequests(connectionLimit(memoryBytes) / 2)
    this.rateLimits = new RateLimits({ ...options, mostBytes: rateLimitBytes(memoryBytes) })
    this.proofs = new Proofs(this.keys, log)
    this.#setupOptions = { ...options, issuers: new Issuers(), proofState: this.proofs }
    this.setup = setUp(withoutPins(loaded), this.#setupOptions)
    this.tokens = createTokenWatch(this)
    this.#backends = new Backends({ ...options, onChange: () => this.shared.rebuild() })
    this.shared = createSharedView(this, this.#backends)
    this.views = createViews(this, { backends: this.#backends, memoryBytes })
    this.gated = new GatedViews({
      host: this,
      shared: this.shared,
      ownViewOf: (binding) => this.views.latest(binding),
      memoryBytes,
    })
    const storage = openSessionStorage(loaded.config, loaded.directory, log, observe)
    this.sessions = createSessions(this, storage)
    this.#storage = new StorageFollower({
      key: storageKey(loaded.config, loaded.directory),
      log,
      use: async (next) => {
        await this.sessions.moveTo(next)
        this.#share(next)
      },
    })
    this.#share(storage)
    this.#follow(loaded.config.backends)
    this.#sweep = setInterval(() => this.#keep(), SWEEP_MS).unref()
  }

  /** Applies another configuration. Sessions and unchanged backends are kept. */
  apply(loaded: Loaded<GatewayConfig>): void {
    const before = this.setup
    this.refused = []
    this.setup = setUp(withoutPins(loaded), this.#setupOptions, before)
    if (before.authenticate !== this.setup.authenticate) this.#retired.add(before.authenticate)
    const { config, directory } = loaded
    this.#storage.follow(storageKey(config, directory), () =>
      openSessionStorage(config, directory, this.log, this.observe),
    )
    this.#follow(config.backends)
  }

  /** Shares further state with other replicas through the session storage. */
  #share({ bus, agreeOnSecret, buckets, useProof, usageRows }: SessionStorage): void {
    this.keys.follow(agreeOnSecret)
    this.proofs.follow(useProof)
    this.relays.follow(bus)
    this.suspended.follow(bus)
    this.streams.follow(bus)
    this.rateLimits.follow(buckets)
    this.#counts = usageRows
    this.usage?.follow(usageRows)
  }

  /** Updates backends and catalog to the configuration. The backends come with their pins. */
  #follow(backends: GatewayConfig['backends']): void {
    const { config, directory } = this.setup
    this.rateLimits.apply(config.rateLimiting)
    this.#followUsage(config)
    this.proofs.apply(this.setup)
    this.#followSearch(config.optimizer, directory)
    const isGateSwitched = this.#followGate(config, directory)
    const common = {
      directory,
      defaultTimeout: config.timeouts?.default ?? DEFAULT_TIMEOUT,
      client: { name: 'portico', version: this.#setupOptions.version },
    }
    const { pinChanges } = this.#backends
    const gone = this.#backends.follow(backends, common, failurePolicy(config))
    this.shared.rebuild()
    if (isGateSwitched)
      notifyEach(this, ({ binding }) => [undefined, { ...this.viewOf(binding), authorizer: undefined }])
    if (pinChanges !== this.#backends.pinChanges) {
      this.approvals.forget()
      this.views.approvedAnew()
    }
    for (const backend of gone) this.letGo(backend)
  }

  /** Follows the configuration's catalog gate. Returns whether it has begun or ceased to withhold backends. */
  #followGate(config: GatewayConfig, directory: string): boolean {
    const before = this.gate
    const enforced = this.gated.enforced !== undefined
    const gate = config.catalogGate
    if (gate === undefined || (gate.mode ?? gateDefaults.mode) === 'disabled') {
      this.gate = undefined
      before?.close().catch((error) => this.log.debug({ err: error }, 'connections to a registry could not be closed'))
    } else {
      this.gate ??= new CatalogGate(gate, {
        ...this.#setupOptions,
        onChange: (...states) => notifyOfGate(this, ...states),
      })
      this.gate.apply(config, gate, directory)
    }
    return enforced !== (this.gated.enforced !== undefined)
  }

  viewOf(binding: string): View {
    return this.gated.enforced === undefined ? this.views.known(binding) : this.gated.known(binding)
  }

  #followUsage({ usage, namespace, name }: GatewayConfig): void {
    if (usage?.enabled !== true) {
      const before = this.usage
      this.usage = undefined
      before?.close().catch((error) => this.faulted(error, 'usage could not be written'))
      return
    }
    if (this.usage === undefined) {
      const { memoryBytes } = this.#setupOptions
      const workload = `${namespace}/${name}`
      this.usage = new Usage({ log: this.log, workload, mostBytes: usageBytes(memoryBytes) })
      this.usage.follow(this.#counts)
    }
    this.usage.apply(usage)
  }

  #followSearch(config: GatewayConfig['optimizer'], directory: string): void {
    if (config === undefined) {
      this.search?.close()
      this.search = undefined
      return
    }
    const onFault = (error: unknown, what: string) => this.faulted(error, what)
    this.search ??= new ToolSearch({ ...this.#setupOptions, onFault })
    this.search.apply(config, directory)
  }

  /** Ends the work at a backend that is gone, then closes it. */
  letGo(backend: Backend): void {
    this.sessions.forget(backend)
    this.listeners.forget(backend)
    // When a server closes, it ends the calls of its sessions.
    const closed = this.inFlight.without(backend).then(() => backend.close())
    closed.catch((error) => this.log.debug({ backend: backend.name, err: error }, 'a backend could not be closed'))
  }

  /** Logs an error in an operation that no request waits for. `what`: the text of the log line. */
  faulted(error: unknown, what: string): void {
    // An unavailable dependency is not an error of the gateway.
    if (error instanceof PublicError) this.log.debug({ err: error }, what)
    else this.log.error({ err: error }, what)
  }

  #keep(): void {
    try {
      this.sessions.keepAlive()
      this.listeners.keepAlive()
      this.streams.logs.sweep()
    } catch (error) {
      this.faulted(error, 'heartbeats could not be sent to clients')
    }
    for (const keys of new Set([this.keys, this.proofs.keys]))
      keys.renew().catch((error) => this.faulted(error, 'replicas could not agree on a secret'))
    const now = Date.now()
    for (const backend of this.#backends.all) backend.callerSessions.sweep(now)
    this.views.sweep(now)
  }

  /** The reason why the gateway can't accept traffic yet; undefined if it can. */
  get notReady(): string | undefined {
    if (!this.keys.hasAsked || !this.proofs.keys.hasAsked) return 'other replicas are being asked for their keys'
    if (!this.shared.allListed) return 'backends are being asked for their tools'
    if (this.gate?.isTried === false) return 'registries are being asked for what is approved'
    return isWaitingForServer(this.setup.config, this.#backends.all) ? 'the server has not started yet' : undefined
  }

  /** The reason why the configured session storage is not used; undefined if it is. */
  get storageProblem(): string | undefined {
    return this.#storage.problem
  }

  /** Aborted when the gateway begins to stop. Streams then end, and no new ones begin. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Begins to stop. Streams end, so that clients reopen them elsewhere; calls continue. */
  drain(): void {
    this.#closing.abort()
    this.endStreams()
  }

  endStreams(): void {
    this.sessions.endStreams()
    this.listeners.end()
  }

  /** Ends sessions, then closes the backends. */
  async close(): Promise<void> {
    clearInterval(this.#sweep)
    this.tokens.close()
    this.relays.close()
    this.proofs.close()
    await this.usage?.close()
    this.#storage.close()
    this.search?.close()
    this.sessions.close()
    await Promise.all([this.views.close(), this.setup.ownIssuer.close(), this.gate?.close()])
    await Promise.all([this.#backends.close(), this.#retired.close(), this.setup.authenticate.close()])
  }
}

/** Returns a configuration without the digests of pins. The backends store them in a form that takes less memory. */
function withoutPins(loaded: Loaded<GatewayConfig>): Loaded<GatewayConfig> {
  const { config } = loaded
  if (config.backends.every(({ pinning }) => pinning?.pins === undefined)) return loaded
  const backends = config.backends.map(({ pinning, ...others }) =>
    pinning === undefined ? others : { ...others, pinning: { mode: pinning.mode } },
  )
  return { ...loaded, config: { ...config, backends } }
}

/** Builds the token watch. Tokens of a client at another replica are checked by that replica. */
const createTokenWatch = (gateway: Gateway): TokenWatch =>
  new TokenWatch({
    authenticate: () => gateway.setup.authenticate.recheck,
    others: () => gateway.inFlight.all.filter(({ context }) => !context.isRemote),
    bindingOf: (caller) => gateway.views.bindingOf(caller),
    onFault: (error) => gateway.faulted(error, 'a token could not be checked'),
  })

/** Builds the shared view, which notifies clients of changes. */
const createSharedView = (gateway: Gateway, backends: Backends): SharedView =>
  new SharedView({
    host: gateway,
    backends,
    onRebuilt(before, after) {
      for (const backend of backends.all) gateway.approvals.listed(backend)
      gateway.sessions.watchAgain()
      if (gateway.gated.enforced === undefined) notifyOfChanges(gateway, before, after)
      else notifyEach(gateway, seenInRebuild(gateway, before, after))
    },
    log: gateway.log,
  })

/** Builds the views of callers, each with its own backends. Callers with nothing open can be forgotten. */
const createViews = (
  gateway: Gateway,
  { backends, memoryBytes }: { readonly backends: Backends } & Pick<GatewayOptions, 'memoryBytes'>,
): CallerViews =>
  new CallerViews({
    memoryBytes,
    host: gateway,
    backends,
    shared: gateway.shared,
    onChange(view, before) {
      const { gated, setup } = gateway
      const { authorizer } = setup
      const whole = before.get('')
      if (gated.enforced !== undefined) notifyEach(gateway, seenInOwn(gateway, view, before))
      else if (whole !== undefined)
        notifyOfChanges(gateway, { ...whole, authorizer }, { ...view.catalogs, authorizer }, view.binding)
    },
    busy: () => [
      ...gateway.inFlight.all.map(({ context }) => context),
      ...gateway.listeners.all,
      ...gateway.sessions.openStreams,
    ],
    onGone: (backend) => gateway.letGo(backend),
    onListed: (backend) => gateway.approvals.listedForCaller(backend),
  })

/** Returns what callers saw before and after a rebuild of all lists, for a gate that withholds backends. */
function seenInRebuild(gateway: Gateway, before: Shown, after: Shown): SeenBy {
  const { gated } = gateway
  // Each set is looked up once, because a rebuild drops its earlier catalogs.
  const seen = new Map<string, Seen>()
  const isPersonal = gateway.views.hasOwn
  return ({ caller, binding }) => {
    const set = gated.enforced?.setFor(caller)
    if (set === undefined) return [before, after]
    const key = isPersonal ? `${binding} ${set.key}` : set.key
    let pair = seen.get(key)
    if (pair === undefined) {
      const view = gated.viewOf(caller, binding)
      const isWhole = !isPersonal && gateway.shared.backends.every(({ name }) => set.names.has(name))
      const last = isWhole ? before : view.lastCatalogsOf(set)
      pair = [last && toShown(last, before.authorizer), toShown(view.catalogsOf(set), after.authorizer)]
      seen.set(key, pair)
    }
    return pair
  }
}

/** Returns what the callers of one view saw before and after a change of its own lists. */
function seenInOwn({ gated, setup }: Gateway, view: CallerView, before: CatalogsBySet): SeenBy {
  const { authorizer } = setup
  return ({ caller, binding }) => {
    const set = binding === view.binding ? gated.enforced?.setFor(caller) : undefined
    if (set === undefined) return undefined
    const last = before.get(set.key)
    return [last && toShown(last, authorizer), toShown(gated.viewOf(caller, binding).catalogsOf(set), authorizer)]
  }
}

/** Notifies the callers for whom the gate's new decision changes the allowed backends. */
function notifyOfGate(gateway: Gateway, before: GateDecision, after: GateDecision): void {
  const { gate, gated, setup } = gateway
  if (gate === undefined || gated.enforced === undefined) return
  const { authorizer } = setup
  notifyEach(gateway, ({ caller, binding }) => {
    const claims = gate.claimsOf(caller)
    const [one, other] = [before.setFor(claims), after.setFor(claims)]
    if (one.key === other.key) return undefined
    const view = gated.viewOf(caller, binding)
    return [toShown(view.catalogsOf(one), authorizer), toShown(view.catalogsOf(other), authorizer)]
  })
  gateway.sessions.watchAgain()
}

/** Builds the sessions of clients, and connects them to the parts that handle their ends and messages. */
const createSessions = (gateway: Gateway, storage: SessionStorage): Sessions =>
  new Sessions({
    storage,
    relays: gateway.relays,
    findBackend: ({ record }, name) => gateway.views.findBackend(record.binding, name),
    watch({ record }, uri, onUpdate) {
      const found = findResource(gateway.viewOf(record.binding), uri)
      return found?.backend.isModern ? found.backend.watched.add([found.own], onUpdate) : undefined
    },
    onServerMessage(session, backendSession, bytes) {
      // The session may have been opened while the gate still allowed the backend.
      if (gateway.gated.sees(session.record.binding, backendSession.backend.name))
        relayUnsolicited(gateway, session, backendSession, bytes)
    },
    onEnded(session, isExpired) {
      gateway.inFlight.forgetAll(session)
      gateway.streams.logs.forgetAll(session)
      if (isExpired)
        gateway.audit.log?.write({ type: 'session_ended', outcome: 'success', session, target: { reason: 'expired' } })
    },
    onCancelled: (session, request) => gateway.inFlight.find(session, request)?.cancel(),
    onFault: (error, what) => gateway.faulted(error, what),
  })
