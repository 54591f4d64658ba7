import type { Logger } from 'pino'
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
import { failurePolicy } from '../backends/health/failure-policy.ts'
import { relayUnsolicited } from '../call/input/unsolicited.ts'
import { SuspendedCalls } from '../call/suspended/suspended-calls.ts'
import { TaskIds } from '../call/tasks/task-ids.ts'
import { budgetLimits, connectionLimit, rateLimitBytes } from '../limits/memory-limits.ts'
import { RateLimits } from '../rate-limits/rate-limits.ts'
import { InFlight } from '../request/in-flight.ts'
import { Listeners } from '../request/listeners.ts'
import type { OwnIssuer } from '../request/own-issuer.ts'
import { type Setup, type SetupOptions, setUp } from '../request/setup.ts'
import { TokenWatch } from '../request/token-watch.ts'
import { ToolSearch } from '../search/tool-search.ts'
import { Relays } from '../sessions/relay/relays.ts'
import { Sessions } from '../sessions/sessions.ts'
import { SharedKeys } from '../sessions/store/shared-keys.ts'
import { openSessionStorage, type SessionStorage, storageKey } from '../sessions/store/storage.ts'
import { StorageFollower } from '../sessions/store/storage-follower.ts'
import { Streams } from '../sessions/streams/streams.ts'
import { WorkflowRuns } from '../workflows/runs.ts'
import { CallerViews } from './caller-views.ts'
import { notifyOfChanges } from './list-changes.ts'
import { isWaitingForServer } from './readiness.ts'
import { SharedView } from './shared-view.ts'
import { statusOf } from './status.ts'
import { backendOfUri } from './view.ts'

interface GatewayOptions {
  readonly listenerUrl: string
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
  /** Memory that this process may take; absent: what is rendered for a gateway's container. */
  readonly memoryBytes?: number | undefined
  /** Folder for what it keeps on disk. */
  readonly stateDirectory: string
  /** Its own authorization server, where it has one. */
  readonly ownIssuer: OwnIssuer
}

const SWEEP_MS = 20_000
const DEFAULT_TIMEOUT = '30s'

/** One gateway: what is in force, and what lives on while that changes. */
export class Gateway {
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
  /** What callers and backends make this process hold. */
  readonly budget: Budget
  /** Requests of those whom a proxy in front brings. */
  readonly clientRequests: ClientRequests
  /** Whether tool calls may be made now. */
  readonly rateLimits: RateLimits
  /** Where callers find tools, instead of being shown all of them. */
  search: ToolSearch | undefined
  readonly sessions: Sessions
  readonly inFlight = new InFlight((error) => this.faulted(error, 'the deadline of a call in flight'))
  /** For what clients bring back to whichever replica. */
  readonly keys = new SharedKeys()
  /** Answers to clients that are at other replicas. */
  readonly relays = new Relays((error) => this.faulted(error, 'an answer by way of another replica'))
  readonly suspended = new SuspendedCalls(this.keys, this.inFlight, this.relays)
  readonly taskIds = new TaskIds(this.keys)
  /** Composite tools that run here. */
  readonly workflows = new WorkflowRuns()
  /** Streams of events to clients with sessions. */
  readonly streams = new Streams(this.relays)
  /** Responses that end with the tokens of their requests. */
  readonly tokens = new TokenWatch({
    authenticate: () => this.setup.authenticate,
    others: () => this.inFlight.all.filter(({ context }) => !context.isRemote),
    bindingOf: (caller) => this.views.bindingOf(caller),
    onFault: (error) => this.faulted(error, 'checking a token'),
  })
  /** Modern clients that listen. */
  readonly listeners = new Listeners()
  /** What all callers see who have no backends of their own. */
  readonly shared: SharedView
  /** What each caller sees: the one way to catalogs and backends for whoever serves a caller. */
  readonly views: CallerViews
  setup: Setup
  /** What is wrong with a newer configuration that was refused; empty where the newest one is in force. */
  refused: readonly Finding[] = []
  readonly #setupOptions: SetupOptions & Pick<GatewayOptions, 'log' | 'memoryBytes' | 'stateDirectory'>
  readonly #retired = new Retired((error) => this.faulted(error, 'closing connections to an issuer'))
  readonly #storage: StorageFollower
  readonly #backends: Backends
  readonly #sweep: NodeJS.Timeout
  readonly #closing = new AbortController()

  constructor(loaded: Loaded<GatewayConfig>, options: GatewayOptions) {
    this.log = options.log
    this.observe = options.observe
    this.audit = options.audit
    this.budget = new Budget(budgetLimits(options.memoryBytes))
    this.clientRequests = new ClientRequests(connectionLimit(options.memoryBytes) / 2)
    this.rateLimits = new RateLimits({ ...options, mostBytes: rateLimitBytes(options.memoryBytes) })
    this.#setupOptions = { ...options, issuers: new Issuers() }
    this.setup = setUp(loaded, this.#setupOptions)
    this.#backends = new Backends({ ...options, onChange: () => this.shared.rebuild() })
    this.shared = new SharedView(loaded.config, {
      backends: this.#backends,
      setup: () => this.setup,
      onRebuilt: (before, after) => {
        this.sessions.watchAgain()
        notifyOfChanges(this, before, after)
      },
      log: options.log,
    })
    this.views = new CallerViews({
      memoryBytes: options.memoryBytes,
      hasLogins: () => options.ownIssuer.hasLogins,
      personal: () => this.#backends.personal,
      config: () => this.setup.config,
      version: () => this.shared.version,
      shared: this.shared,
      onChange: (binding, before, after) =>
        notifyOfChanges(this, { ...before, judge: this.setup.judge }, { ...after, judge: this.setup.judge }, binding),
      busy: () =>
        [this.inFlight.all.map(({ context }) => context), this.listeners.all, this.sessions.openStreams].flat(),
      onGone: (backend) => this.#letGo(backend),
    })
    const storage = openSessionStorage(loaded.config, loaded.directory, options.log, options.observe)
    this.#storage = new StorageFollower({
      key: storageKey(loaded.config, loaded.directory),
      log: options.log,
      use: async (next) => {
        await this.sessions.moveTo(next)
        this.#share(next)
      },
    })
    this.#share(storage)
    this.sessions = new Sessions({
      storage,
      backendNamed: ({ record }, name) => this.views.backendNamed(record.binding, name),
      watch: ({ record }, uri, onUpdate) => {
        const backend = backendOfUri(this.views.known(record.binding), uri)
        return backend?.era?.era === 'modern' ? backend.watched.add([uri], onUpdate) : undefined
      },
      onServerMessage: (session, backendSession, bytes) => relayUnsolicited(this, session, backendSession, bytes),
      onEnded: (session, isExpired) => this.#ended(session, isExpired),
      onCancelled: (session, request) => this.inFlight.find(session, request)?.cancel(),
      onFault: (error, what) => this.faulted(error, what),
    })
    this.#follow()
    this.#sweep = setInterval(() => this.#keep(), SWEEP_MS).unref()
  }

  /** A session is no longer here. */
  #ended(session: string, isExpired: boolean): void {
    this.inFlight.forgetAll(session)
    this.streams.forgetAll(session)
    if (isExpired)
      this.audit.log?.write({ type: 'session_ended', outcome: 'success', session, target: { reason: 'expired' } })
  }

  /** Puts another configuration in force. Sessions and unchanged backends live on. */
  apply(loaded: Loaded<GatewayConfig>): void {
    const before = this.setup
    this.refused = []
    this.setup = setUp(loaded, this.#setupOptions, before)
    if (before.authenticate !== this.setup.authenticate) this.#retired.add(before.authenticate)
    const { config, directory } = loaded
    this.#storage.follow(storageKey(config, directory), () =>
      openSessionStorage(config, directory, this.log, this.observe),
    )
    this.#follow()
  }

  /** Shares with other replicas what they have in common besides sessions. */
  #share({ bus, agreeOnSecret, buckets }: SessionStorage): void {
    this.keys.follow(agreeOnSecret)
    this.relays.follow(bus)
    this.suspended.follow(bus)
    this.streams.follow(bus)
    this.rateLimits.follow(buckets)
  }

  /** Brings backends and catalog in line with the configuration. */
  #follow(): void {
    const { config, directory, serverInfo } = this.setup
    this.rateLimits.apply(config.rateLimiting)
    this.#followSearch(config.optimizer, directory)
    const common = {
      directory,
      defaultTimeout: config.timeouts?.default ?? DEFAULT_TIMEOUT,
      client: { name: 'portico', version: serverInfo.version },
    }
    const gone = this.#backends.follow(config.backends, common, failurePolicy(config))
    this.shared.rebuild()
    for (const backend of gone) this.#letGo(backend)
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

  #letGo(backend: Backend): void {
    this.sessions.forget(backend)
    this.listeners.forget(backend)
    // A server ends the calls of a session with it.
    const closed = this.inFlight.without(backend).then(() => backend.close())
    closed.catch((error) => this.log.debug({ backend: backend.name, err: error }, 'closing a backend'))
  }

  /** A fault in something that no request waits for: the log has it, and only `what` is not done. */
  faulted(error: unknown, what: string): void {
    // What a part that is away could not do is no fault of ours.
    if (error instanceof PublicError) this.log.debug({ err: error }, what)
    else this.log.error({ err: error }, what)
  }

  #keep(): void {
    try {
      this.sessions.keepAlive()
      this.listeners.keepAlive()
      this.streams.sweep()
    } catch (error) {
      this.faulted(error, 'heartbeats to clients')
    }
    this.keys.renew().catch((error) => this.faulted(error, 'agreeing on a secret'))
    const now = Date.now()
    for (const backend of this.#backends.all) backend.callerSessions.sweep(now)
    this.views.sweep(now)
  }

  /** What has to come before traffic may: undefined where nothing has. */
  get notReady(): string | undefined {
    if (!this.keys.hasAsked) return 'other replicas are being asked for their keys'
    if (!this.shared.allListed) return 'backends are being asked for their tools'
    return isWaitingForServer(this.setup.config, this.#backends.all) ? 'the server has not started yet' : undefined
  }

  /** Why the session storage of the configuration is not used; undefined where it is. */
  get storageProblem(): string | undefined {
    return this.#storage.problem
  }

  /** What the admin listener shows at /status. */
  status(): object {
    const { setup, refused, sessions, rateLimits, search, workflows: runs } = this
    const { catalog, backends, conflicts } = this.shared
    const more = {
      auditProblem: this.audit.problem,
      conflicts,
      storageProblem: this.storageProblem,
      cutForCallers: this.views.cut,
    }
    return statusOf({ setup, refused, sessions, catalog, backends, rateLimits, search, runs, ...more })
  }

  /** Aborted when the gateway begins to stop: what would go on for ever ends here, and nothing of that kind begins. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Begins to stop: ends streams, so that clients open them elsewhere; calls go on. */
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
    this.#storage.close()
    this.search?.close()
    this.sessions.close()
    await Promise.all([this.views.close(), this.setup.ownIssuer.close()])
    await Promise.all([this.#backends.close(), this.#retired.close(), this.setup.authenticate.close()])
  }
}
