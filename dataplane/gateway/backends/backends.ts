import type { Logger } from 'pino'
import type { BackendConfig } from '../../config/gateway.ts'
import { type CallerCredential, createStrategy, type Strategy, type UpstreamTokens } from '../../credentials/index.ts'
import { Budget } from '../../server/budget.ts'
import { isLate } from '../limits/is-late.ts'
import { backendLimits } from '../limits/memory-limits.ts'
import { Definitions } from '../pins/definitions.ts'
import { Backend, type BackendOptions } from './backend/backend.ts'
import { CallerHeaders, ConfiguredHeaders, OwnHeaders } from './connection/headers.ts'
import { SigningTransport, type Transport } from './connection/http.ts'
import { type FailurePolicy, failurePolicy } from './health/health.ts'
import { forEachKind } from './lists/list-kind.ts'
import { type Feed, probeFeed, ToolFeed } from './refresh/feeds.ts'
import { listTools } from './refresh/read-lists.ts'

/** The longest wait of a client's first request for a backend's first answer. */
const FIRST_ANSWER_MS = 3_000
/** The time that backends have to end their sessions when the gateway stops, after the wait for calls. */
const CLOSE_MS = 1_000

type Common = Omit<BackendOptions, 'config' | 'definitions' | 'log' | 'share' | 'caller' | 'headers' | 'transport'>

interface Member {
  /** A digest of the settings. If it changes, the backend is replaced. */
  readonly key: string
  readonly backend: Backend
  readonly feed: Feed
  /** Set if each caller has a credential for the backend. */
  readonly personal: PersonalBackend | undefined
}

interface BackendsOptions {
  readonly log: Logger
  readonly onChange: () => void
  /** The container's memory limit, if any. */
  readonly memoryBytes?: number | undefined
  /** The tokens that callers obtained from upstream providers, for backends that get these. */
  readonly ownIssuer: { readonly upstreamTokens: UpstreamTokens }
}

/** Applies other pins to a backend and keeps its lists. Returns false if the pins have not changed. */
function approve(backend: Backend, pinning: BackendConfig['pinning']): boolean {
  if (!backend.definitions.follow(pinning)) return false
  // The notes may quote entries that the new pins withhold.
  backend.entryNotes = forEachKind(() => [])
  backend.refreshLists()
  return true
}

/** The backends of one gateway, in the order of the configuration. */
export class Backends {
  readonly #log: Logger
  readonly #onChange: () => void
  #members = new Map<string, Member>()
  #policy: FailurePolicy = failurePolicy({})
  readonly #untried = new Set<Promise<unknown>>()
  all: readonly Backend[] = []
  /** Backends for which each caller has a credential. The instances in `all` never use a caller's credential. */
  personal: readonly PersonalBackend[] = []

  readonly #budget: Budget
  readonly #upstreamTokens: UpstreamTokens

  constructor({ log, onChange, memoryBytes, ownIssuer }: BackendsOptions) {
    this.#log = log
    this.#upstreamTokens = ownIssuer.upstreamTokens
    this.#budget = new Budget(backendLimits(memoryBytes))
    this.#onChange = onChange
  }

  named(name: string): Backend | undefined {
    return this.#members.get(name)?.backend
  }

  get allTried(): boolean {
    return this.#untried.size === 0
  }

  async firstLists(): Promise<void> {
    await Promise.all(this.#untried)
  }

  /** The number of changes of pins at backends that were kept. */
  pinChanges = 0

  /** Applies the configuration. Unchanged backends stay. Returns the removed backends, which the caller must close. */
  follow(configs: readonly BackendConfig[], common: Common, policy: FailurePolicy): readonly Backend[] {
    const before = this.#members
    this.#members = new Map()
    this.#policy = policy
    for (const config of configs) {
      const { pinning, ...others } = config
      const key = JSON.stringify([others, common])
      const known = before.get(config.name)
      const isKnown = known?.key === key
      if (isKnown) {
        before.delete(config.name)
        if (approve(known.backend, pinning)) this.pinChanges++
      }
      const member = isKnown
        ? known
        : this.#start(key, { config: others, definitions: new Definitions(pinning), ...common })
      this.#members.set(config.name, member)
    }
    for (const { feed } of this.#members.values()) feed.follow(policy)
    const members = [...this.#members.values()]
    this.all = members.map(({ backend }) => backend)
    this.personal = members.flatMap(({ personal }) => personal ?? [])
    for (const { feed } of before.values()) feed.stop()
    return [...before.values()].map(({ backend }) => backend)
  }

  #start(key: string, options: Common & Pick<BackendOptions, 'config' | 'definitions'>): Member {
    const share = this.#budget.shareOf(options.config.name)
    const own = { ...options, log: this.#log, share }
    const personal = personalBackend(own, () => this.#policy, this.#upstreamTokens)
    const backend = personal?.shared ?? new Backend(own)
    backend.health.policy = this.#policy
    const feed = this.#createFeed(backend, personal)
    backend.refreshLists = () => feed.refresh()
    this.#awaitFirst(feed)
    return { key, backend, feed, personal }
  }

  #createFeed(backend: Backend, personal: PersonalBackend | undefined): Feed {
    const onChange = this.#onChange
    // Callers without a credential get the lists of the gateway itself.
    return personal === undefined || personal.forwards !== undefined
      ? new ToolFeed(backend, { onChange, log: this.#log })
      : probeFeed(backend, { onChange, authorize: personal.authorize })
  }

  #awaitFirst(feed: Feed): void {
    const tried = isLate(feed.tried, FIRST_ANSWER_MS).finally(() => this.#untried.delete(tried))
    this.#untried.add(tried)
  }

  /** Closes all backends. Calls that are still in flight after a while are aborted. */
  async close(): Promise<void> {
    const members = [...this.#members.values()]
    for (const { feed } of members) feed.stop()
    await Promise.all(
      members.map(async ({ backend }) => {
        const timer = setTimeout(() => {
          backend.dispatcher.destroy().catch(() => {
            // The connections are destroyed in any case, and `close` below then settles.
          })
        }, CLOSE_MS)
        await backend.close().catch(() => {
          // A backend that fails to close must not keep the others, or the gateway, from closing.
        })
        clearTimeout(timer)
      }),
    )
  }
}

export interface PersonalBackend {
  /** The backend as the gateway itself sees it, without any caller's credential. */
  readonly shared: Backend
  readonly strategy: Strategy
  /** The headers, in lower case, in which callers send the credential; undefined if the strategy obtains it. */
  readonly forwards: readonly string[] | undefined
  /** Returns the tools that the backend lists without a credential; undefined if there are none or they are unknown. */
  readonly openTools: () => Promise<Backend['tools']>
  /** Obtains the credential of the gateway's own probes. */
  readonly authorize: () => Promise<unknown>
  /**
   * Opens the backend for one caller, with its own sessions, streams, lists, era and health, so that callers are fully
   * separated. Over HTTP it shares connections, which carry no identity.
   */
  open(credential: CallerCredential): Backend
}

/** Returns the shared transport. If requests must be signed, it signs with this caller's credential. */
const chooseTransport = ({ dispatcher, url }: Backend, credential: CallerCredential, { signs }: Strategy): Transport =>
  signs === true ? new SigningTransport(dispatcher, url.host, () => credential.current?.sign) : dispatcher

/** Creates the backend; undefined if its configuration uses no credential of callers. */
function personalBackend(
  options: BackendOptions,
  policy: () => FailurePolicy,
  upstreamTokens: UpstreamTokens,
): PersonalBackend | undefined {
  const { config, directory } = options
  if (config.credential === undefined) return undefined
  const strategy = createStrategy(config.credential, { directory, upstreamTokens })
  const configured = new ConfiguredHeaders(config, directory)
  const own = new OwnHeaders(configured, strategy)
  const forwards = config.credential.forwarded?.headerNames.map((name) => name.toLowerCase())
  const shared = new Backend({ ...options, headers: own, release: () => strategy.close() })
  return {
    shared,
    strategy,
    forwards,
    authorize: () => own.authorize(),
    // Lists that the gateway's own credential gives are not public.
    openTools: strategy.obtainOwn === undefined ? openTools(shared) : async () => undefined,
    open(credential) {
      const caller = new CallerHeaders(config.name, configured, credential)
      // A message stream (HTTP+SSE) is one conversation, so each caller needs one.
      const transport = config.transport === 'sse' ? undefined : chooseTransport(shared, credential, strategy)
      const { definitions } = shared
      const backend = new Backend({ ...options, caller, transport, definitions })
      backend.health.policy = policy()
      return backend
    },
  }
}

/**
 * Returns the function that gives the tools which a backend lists without a credential, for callers who have none yet.
 * It requests them at most once per interval of the policy and shares the result. It gives undefined if the backend
 * lists nothing without a credential.
 */
function openTools(backend: Backend): () => Promise<Backend['tools']> {
  let asked: Promise<Backend['tools']> | undefined
  let askAt = 0
  return function knownTools() {
    const now = performance.now()
    if (asked === undefined || now >= askAt) {
      askAt = now + backend.health.policy.intervalMs
      asked = listTools(backend).then(
        ({ tools }) => tools,
        () => undefined,
      )
    }
    return asked
  }
}
