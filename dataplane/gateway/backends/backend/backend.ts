import type { Logger } from 'pino'
import { definitionDigest } from '../../../../crds/settings/definition-digest.ts'
import { parseTimer } from '../../../../crds/settings/duration.ts'
import { isObject } from '../../../../crds/settings/json.ts'
import type { BackendConfig } from '../../../config/gateway.ts'
import { AddressRefused } from '../../../net/connect.ts'
import type { Share } from '../../../server/budget.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Operation } from '../../../telemetry/observe.ts'
import { ALL_CAPABILITIES } from '../../mcp/client-capabilities.ts'
import { MODERN } from '../../mcp/eras.ts'
import { declaresTasks } from '../../mcp/tasks.ts'
import { Definitions } from '../../pins/definitions.ts'
import { BackendFailure, connectionFailure } from '../connection/failure.ts'
import { type BackendHeaders, type CallerHeaders, ConfiguredHeaders } from '../connection/headers.ts'
import { IDENTITY, type Transport } from '../connection/http.ts'
import { type BackendAnswer, requestBackend } from '../connection/request.ts'
import { Health } from '../health/health.ts'
import { forEachKind, type ListKind, type PinnedKind, toPinKind } from '../lists/list-kind.ts'
import { ListRooms } from '../lists/list-memory.ts'
import type { BackendItem, BackendTool, EntryNote } from '../lists/list-page.ts'
import { BackendSession } from '../session/backend-session.ts'
import { CallerSessions } from '../session/caller-sessions.ts'
import { discoverText, type Era, LegacySupport, readEra } from '../session/era.ts'
import { SharedWatch } from '../session/resource-watch.ts'
import type { Implementation, OwnPost, SessionPeer } from '../session/session-peer.ts'
import type { SessionKeeper } from '../session/shared-session.ts'
import { createTransport, findAddress } from './create-transport.ts'

export interface BackendOptions {
  readonly config: BackendConfig
  /** The folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** The timeout (Go duration) of backends without their own `timeout`. */
  readonly defaultTimeout: string
  readonly client: Implementation
  readonly log: Logger
  /** The backend's share of memory. */
  readonly share: Share
  /** The caller that the backend is for, if each caller has a credential; absent: all callers. */
  readonly caller?: CallerHeaders | undefined
  /** Headers of its requests that replace the configured ones. */
  readonly headers?: BackendHeaders | undefined
  /** Releases the backend's own resources when it is closed. */
  readonly release?: (() => Promise<void>) | undefined
  /** Connections that it shares with other backends; absent: it has its own. */
  readonly transport?: Transport | undefined
  /** The approved definitions, which all callers' backends share; absent: those of `config`. */
  readonly definitions?: Definitions | undefined
}

/** The lists and instructions as a backend has sent them, whether or not they are shown. */
interface ReceivedLists {
  /** The last valid list; undefined before the first one. */
  tools: readonly BackendTool[] | undefined
  prompts: readonly BackendItem[]
  resources: readonly BackendItem[]
  templates: readonly BackendItem[]
  skills: readonly BackendItem[]
  /** Undefined until a session was opened or the era was probed. */
  instructions: string | undefined
}

/**
 * The longest time for which a known era is used without a probe, because an upgraded server still answers
 * `initialize`, and capabilities change.
 */
const ERA_MS = 5 * 60_000
/** The timeout of the probe, because some servers never answer an unknown method. */
const PROBE_MS = 5_000
const LEGACY: Era = { era: 'legacy' }
/** Error codes of connections that were never made. Such an error can't be the server's reaction to the probe. */
const NOT_CONNECTED: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
])

/** The statuses of an address at which MCP is not, or no longer, served. */
const NOT_THERE: ReadonlySet<number> = new Set([404, 405, 410])

const MOST_NAMED = 10

const isUnreached = ({ code, cause }: BackendFailure): boolean =>
  code === 'backend_unavailable' &&
  (cause === undefined || cause instanceof AddressRefused || NOT_CONNECTED.has((cause as NodeJS.ErrnoException).code))

/** One shared object, so that all backends without items compare as equal. */
const NO_ITEMS: readonly BackendItem[] = []

const NO_CAPABILITIES = {}

/** One backend: its connections, era, sessions, health and lists. */
export class Backend implements SessionPeer {
  readonly name: string
  readonly url: URL
  /** The path of requests: the configured one, or the one to which it redirects within the origin. */
  path: string
  readonly timeoutMs: number
  readonly client: Implementation
  readonly log: Logger
  readonly headers: BackendHeaders
  /** The credential of the caller that the backend is for; undefined if it is for all callers. */
  readonly caller: CallerHeaders | undefined
  readonly health = new Health()
  readonly dispatcher: Transport
  /** The metric of obtaining a caller's credential. */
  readonly exchangeOperation: Operation
  /** The gateway's own session with a legacy backend, for the list of tools and its changes. */
  readonly ownSession: BackendSession
  readonly callerSessions = new CallerSessions(this)
  /** The resources that clients of the modern era watch here. */
  readonly watched = new SharedWatch(this)
  readonly lists: ListRooms
  readonly share: Share
  readonly definitions: Definitions
  /**
   * The lists as the backend sent them. Feeds write them, and reports to operators read them. Clients get `tools` and
   * the other shown lists.
   */
  readonly received: ReceivedLists = {
    tools: undefined,
    prompts: NO_ITEMS,
    resources: NO_ITEMS,
    templates: NO_ITEMS,
    skills: NO_ITEMS,
    instructions: undefined,
  }
  /** The notes on repaired and omitted entries of its lists. */
  entryNotes: Record<ListKind, readonly EntryNote[]> = forEachKind(() => [])
  /** The reasons why lists could not be read at the last poll, by kind. */
  readonly unread = new Map<string, string>()
  /** The capabilities when its lists were last polled. */
  capabilitiesBefore: Readonly<Record<string, unknown>> = {}
  /** The era in which the gateway itself and modern clients communicate with it. */
  era: Era | undefined
  /** Tells whether a modern backend also supports the legacy era. Legacy clients are then served in sessions. */
  readonly legacySupport: LegacySupport
  closed = false
  answersOnStreams = false
  /** Refreshes its lists. The feed that keeps the lists replaces this function. */
  refreshLists: () => void = () => {
    // There is no feed yet.
  }
  #capabilities: Readonly<Record<string, unknown>> = {}
  /** Capabilities that it has not declared but whose lists it serves. */
  #undeclared: Readonly<Record<string, unknown>> = NO_CAPABILITIES
  #eraUntil = 0
  #detecting: Promise<Era> | undefined
  readonly #sessions = new Set<BackendSession>()
  /** True for a server on standard input and output, where one conversation in one era serves all clients. */
  readonly #hasOneEra: boolean
  readonly #protocolEra: BackendConfig['protocolEra']
  readonly #sharesTransport: boolean
  /** True for HTTP+SSE, where a server that has lost a session leaves its stream open. */
  readonly hasStreamSessions: boolean
  readonly #attributes: Operation['attributes'] & object
  /** Metrics by method. Their number is bounded, because only a few methods are relayed. */
  readonly #operations = new Map<string, Operation>()
  readonly #release: BackendOptions['release']

  constructor(options: BackendOptions) {
    const { config, directory, defaultTimeout, client, log, share, caller, transport } = options
    this.name = config.name
    this.url = findAddress(config)
    this.path = this.url.pathname + this.url.search
    this.timeoutMs = parseTimer(config.timeout ?? defaultTimeout)
    this.client = client
    this.share = share
    this.lists = new ListRooms(share)
    this.log = log.child({ backend: config.name })
    this.caller = caller
    this.definitions = options.definitions ?? new Definitions(config.pinning)
    this.headers = caller ?? options.headers ?? new ConfiguredHeaders(config, directory)
    this.hasStreamSessions = config.transport === 'sse'
    this.#protocolEra = config.protocolEra
    this.#hasOneEra = config.transport === 'stdio'
    this.legacySupport = new LegacySupport(!this.#hasOneEra && config.protocolEra !== 'stateless')
    const attributes = { 'portico.backend': config.name }
    this.#attributes = attributes
    this.exchangeOperation = { kind: 'exchange', name: config.credential?.type ?? 'none', attributes }
    this.dispatcher = transport ?? createTransport({ config, directory, log: this.log, share })
    this.#sharesTransport = transport !== undefined
    this.#release = options.release
    this.ownSession = this.newSession(undefined, JSON.stringify(ALL_CAPABILITIES))
  }

  /** The tools that are shown; undefined before the first list. */
  get tools(): readonly BackendTool[] | undefined {
    return this.received.tools === undefined ? undefined : this.definitions.shown('tools', this.received.tools)
  }

  get prompts(): readonly BackendItem[] {
    return this.definitions.shown('prompts', this.received.prompts)
  }

  get resources(): readonly BackendItem[] {
    return this.definitions.shown('resources', this.received.resources)
  }

  get templates(): readonly BackendItem[] {
    return this.definitions.shown('resourceTemplates', this.received.templates)
  }

  /** Pins don't cover skills yet, so a backend with enforced pins shows none. */
  get skills(): readonly BackendItem[] {
    return this.definitions.areEnforced ? NO_ITEMS : this.received.skills
  }

  /**
   * Returns the keys of listed items that are not shown. `pinned`: only items for which a different text was approved.
   */
  withheld(kind: PinnedKind, which: 'all' | 'pinned'): readonly string[] {
    const { definitions, received } = this
    const keys = definitions.withheld(toPinKind(kind), received[kind] ?? NO_ITEMS).map(({ key }) => key)
    return which === 'all' ? keys : keys.filter((key) => definitions.pins?.has(toPinKind(kind), key))
  }

  get needsApproval(): boolean {
    return this.definitions.areEnforced
  }

  withholds(uri: string): boolean {
    return this.needsApproval && this.withheld('resources', 'all').includes(uri)
  }

  get instructions(): string | undefined {
    return this.definitions.shownInstructions(this.received.instructions)
  }

  /** Stores the instructions from the answer to `initialize`. */
  instructed(text: string | undefined): void {
    if (text === this.received.instructions) return
    this.received.instructions = text
    // The refresh also reports to operators whether the instructions are approved.
    if (this.definitions.pins !== undefined) this.refreshLists()
  }

  /** Tells whether reports to operators may quote an entry of a list by its name and JSON text. */
  mayTellOf(kind: PinnedKind, key: string, text: string): boolean {
    const { definitions } = this
    if (!definitions.areEnforced) return true
    return definitions.pins?.reasonAgainst(toPinKind(kind), key, definitionDigest(text)) === undefined
  }

  callOperationOf(tool: string): Operation {
    return { kind: 'backend-call', name: 'tools/call', attributes: this.#attributes, tool }
  }

  operationOf(method: string): Operation {
    let operation = this.#operations.get(method)
    if (operation === undefined)
      this.#operations.set(method, (operation = { kind: 'backend-call', name: method, attributes: this.#attributes }))
    return operation
  }

  /**
   * True if its lists may differ between sessions. False if all clients share one conversation, or it has no sessions.
   */
  get mayShowBySession(): boolean {
    if (this.#hasOneEra) return false
    const { opened } = this.ownSession
    return this.hasStreamSessions || opened === undefined || opened.sessionId !== undefined
  }

  /** The protocol revision that the gateway itself uses with this backend, if known. */
  get revision(): string | null {
    if (this.era === undefined) return null
    return this.era.era === 'modern' ? MODERN : (this.ownSession.opened?.revision ?? null)
  }

  /**
   * Its capabilities: those of the last `initialize` or `server/discover`, and those that its lists have shown. Empty
   * before.
   */
  get capabilities(): Readonly<Record<string, unknown>> {
    const { declared } = this
    return this.#undeclared === NO_CAPABILITIES ? declared : { ...declared, ...this.#undeclared }
  }

  /** Records a capability that one of its lists shows. */
  has(capability: string): void {
    if (!isObject(this.capabilities[capability])) this.#undeclared = { ...this.#undeclared, [capability]: {} }
  }

  get declared(): Readonly<Record<string, unknown>> {
    const latest = this.era?.era === 'modern' ? this.era.capabilities : this.ownSession.opened?.capabilities
    if (latest !== undefined) this.#capabilities = latest
    return this.#capabilities
  }

  get isModern(): boolean {
    return this.era?.era === 'modern'
  }

  get tryTimeoutMs(): number {
    return Math.min(this.timeoutMs, this.health.policy.timeoutMs) / 2
  }

  capabilitiesFor(session: object): Readonly<Record<string, unknown>> | undefined {
    return this.ownSession === session ? undefined : (this.ownSession.opened?.capabilities ?? {})
  }

  /** True if it runs tool calls as tasks of 2025-11-25. */
  get runsTasks(): boolean {
    return this.era?.era === 'legacy' && declaresTasks(this.capabilities)
  }

  /** True if it has never been reached: no list of tools and no other answer has arrived. */
  get silent(): boolean {
    const code = this.health.lastError?.code
    return (
      this.tools === undefined && (code === undefined || code === 'backend_unavailable' || code === 'backend_timeout')
    )
  }

  /**
   * Creates a session with this backend, not opened yet, that declares the capabilities `declared` (JSON text). The
   * caller must call `closeSession` in the end.
   */
  newSession(keeper?: SessionKeeper, declared?: string): BackendSession {
    const session = new BackendSession(this, keeper, declared)
    this.#sessions.add(session)
    return session
  }

  /** Drops a session that continues at another replica. */
  leaveSession(session: BackendSession): void {
    this.#sessions.delete(session)
    session.leave()
  }

  closeSession(session: BackendSession): void {
    this.#sessions.delete(session)
    session.close()
  }

  /** Returns the era and probes it if unknown. Rejects with a BackendFailure if the answer proves nothing. */
  detect(): Promise<Era> {
    if (this.era !== undefined) return Promise.resolve(this.era)
    this.#detecting ??= this.probe().finally(() => {
      this.#detecting = undefined
    })
    return this.#detecting
  }

  /** Returns the era and probes it again if the last probe is too old. Calls use the known era meanwhile. */
  async review(): Promise<Era> {
    if (this.era === undefined) return this.detect()
    if (performance.now() > this.#eraUntil) await this.probe()
    return this.era
  }

  /** Forgets the era after an answer that contradicts it, so that it is probed again. */
  invalidateEra(): void {
    this.era = undefined
    this.legacySupport.forget()
  }

  /** Probes the era and, for a modern backend, its capabilities. Rejects with a BackendFailure. */
  async probe(): Promise<Era> {
    const era = await this.#foundEra()
    const isChosen = this.#protocolEra === 'stateless'
    this.era =
      era.era === 'modern' && this.#hasOneEra && !isChosen && (await this.#opensSession()) ? { era: 'legacy' } : era
    if (this.era.era === 'modern') this.received.instructions = this.era.instructions
    this.#eraUntil = performance.now() + (this.definitions.pins === undefined ? ERA_MS : 0)
    return this.era
  }

  /**
   * Returns the configured era, or the one that the answer to the probe proves. If the answer proves nothing, an
   * attempt to open a session decides.
   */
  async #foundEra(): Promise<Era> {
    if (this.#protocolEra === 'session') return LEGACY
    const timeoutMs = Math.min(PROBE_MS, this.timeoutMs, this.health.policy.timeoutMs)
    try {
      const headers = this.modernHeaders('server/discover')
      const era = readEra(await this.post({ headers, body: discoverText(this.client), timeoutMs }))
      if (this.#protocolEra !== 'stateless' || era.era === 'modern') return era
    } catch (error) {
      const failure = connectionFailure(error)
      if (this.#protocolEra === 'stateless' || isUnreached(failure)) throw failure
      await this.#proveSession(failure)
      return LEGACY
    }
    throw new BackendFailure(
      'backend_failed',
      'supports only the session era, and protocolEra is stateless: set protocolEra to auto or session',
    )
  }

  /**
   * Opens a session, or verifies that the open one is still known. Throws the failure of the probe if there is no
   * session.
   */
  async #proveSession(failure: BackendFailure): Promise<void> {
    const { ownSession } = this
    const { opened } = ownSession
    if (opened?.sessionId === undefined) {
      if (opened !== undefined) ownSession.invalidate(opened)
      await ownSession.open().catch((error) => {
        throw connectionFailure(error).status === undefined ? failure : error
      })
    } else if ((await ownSession.check(opened)) === 'lost') throw failure
  }

  /**
   * Tells whether a server that keeps one era for its lifetime opens a session. In the legacy era it can send requests,
   * and clients of both eras can be served. Rejects with a BackendFailure if the server can't be reached.
   */
  async #opensSession(): Promise<boolean> {
    try {
      await this.ownSession.open()
      return true
    } catch (error) {
      const failure = connectionFailure(error)
      if (failure.code === 'backend_unavailable') throw failure
      return false
    }
  }

  /** Returns the headers of a modern request as a new flat list. */
  modernHeaders(method: string): string[] {
    return [
      'content-type',
      'application/json',
      'accept',
      'application/json, text/event-stream',
      ...IDENTITY,
      'mcp-protocol-version',
      MODERN,
      'mcp-method',
      method,
      ...this.headers.current().list,
    ]
  }

  /** Sends one of the gateway's own messages. */
  post(request: OwnPost): Promise<BackendAnswer> {
    const { path } = this
    const answer = this.#post(request).then((given) =>
      this.movedBack(path, given.status) ? this.#post(request) : given,
    )
    return this.definitions.areEnforced ? answer.then((given) => ({ ...given, isUnquoted: true })) : answer
  }

  #post(request: OwnPost): Promise<BackendAnswer> {
    return requestBackend({
      dispatcher: this.dispatcher,
      share: this.share,
      path: this.path,
      method: 'POST',
      url: this.url,
      onRedirect: this.moved,
      timeoutMs: Math.min(this.timeoutMs, this.health.policy.timeoutMs),
      ...request,
    })
  }

  /** Records a redirect: later requests go to this path. */
  readonly moved = (path: string): void => {
    this.path = path
  }

  /**
   * Forgets a redirect to `path` if a request there was refused with a status that may mean that the redirect is out of
   * date. Returns true if the request should be sent to the configured address.
   */
  movedBack(path: string, status: number): boolean {
    const configured = this.url.pathname + this.url.search
    if (path === configured || !NOT_THERE.has(status)) return false
    if (this.path === path) this.path = configured
    return true
  }

  /** Makes the next poll probe the era early. Until then calls use the known era. */
  doubtEra(): void {
    this.#eraUntil = 0
  }

  end(headers: string[]): void {
    const { dispatcher, path, share } = this
    requestBackend({ dispatcher, path, share, method: 'DELETE', headers, timeoutMs: 5_000 }).catch(() => {
      // If the request fails, the backend ends the session by its own timeout.
    })
  }

  /** Ends all sessions, waits for calls in flight and closes the connections. */
  async close(): Promise<void> {
    this.closed = true
    this.callerSessions.clear()
    this.watched.close()
    this.lists.release()
    for (const session of this.#sessions) this.closeSession(session)
    if (!this.#sharesTransport) await this.dispatcher.close()
    await this.#release?.()
  }
}

/** Returns the error for a request that needs unreachable backends. Its text names them. */
export function unreachable(backends: readonly Backend[]): PublicError {
  const names = backends.slice(0, MOST_NAMED).map(({ name }) => JSON.stringify(name))
  const others = backends.length - names.length
  if (others > 0) names.push(`${others} more`)
  if (names.length === 0) return new PublicError('backend_unavailable')
  const which = names.length === 1 ? 'The backend' : 'The backends'
  const message = `${which} ${new Intl.ListFormat('en-GB').format(names)} can’t be reached.`
  const problems = backends.slice(0, MOST_NAMED).flatMap(({ caller }) => caller?.problem ?? [])
  return new PublicError('backend_unavailable', { message: [message, ...problems].join(' ') })
}
