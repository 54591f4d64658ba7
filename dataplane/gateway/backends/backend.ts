import type { Logger } from 'pino'
import { parseDuration } from '../../../crds/shared/duration.ts'
import type { BackendConfig } from '../../config/gateway.ts'
import type { Operation } from '../../telemetry/observe.ts'
import type { BackendItem } from '../aggregation/list-page.ts'
import type { BackendTool } from '../aggregation/tool.ts'
import { WITH_APPS } from '../mcp/apps.ts'
import { MODERN } from '../mcp/revisions.ts'
import { CallerLinks } from './caller-links.ts'
import { discoverText, type Era, eraOfAnswer } from './era.ts'
import { ConfiguredHeaders } from './headers.ts'
import { Health } from './health.ts'
import { Link, type LinkKeeper } from './link.ts'
import { type BackendAnswer, type BackendRequest, requestBackend } from './request.ts'
import { declaresTasks } from './session-tasks.ts'
import { SharedWatch } from './shared-watch.ts'
import { addressOf, createTransport, type Transport } from './transport.ts'

/** What the gateway says of itself to backends. */
export interface Implementation {
  readonly name: string
  readonly version: string
}

export interface BackendOptions {
  readonly config: BackendConfig
  /** Folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** Go duration for backends without their own `timeout`. */
  readonly defaultTimeout: string
  readonly client: Implementation
  readonly log: Logger
}

/** A message of our own. */
export type OwnPost = Pick<BackendRequest, 'headers' | 'onHead' | 'isAnswerless' | 'isInSession'> & {
  readonly body: string
}

/** A verdict need not fail by itself: an upgraded server still answers `initialize`. Capabilities change as well. */
const VERDICT_MS = 5 * 60_000

/** One backend: its connections, era, sessions, health and the tools it has shown. */
export class Backend {
  readonly name: string
  readonly url: URL
  readonly path: string
  readonly timeoutMs: number
  readonly client: Implementation
  readonly headers: ConfiguredHeaders
  readonly health = new Health()
  readonly dispatcher: Transport
  readonly callOperation: Operation
  /** The gateway's own session with a legacy backend, for the list of tools and its changes. */
  readonly house: Link
  readonly callerLinks = new CallerLinks(this)
  /** Resources that are watched here in the modern era. */
  readonly watched = new SharedWatch(this)
  /** Undefined until a first list has come; then the last good one. */
  tools: readonly BackendTool[] | undefined
  prompts: readonly BackendItem[] = []
  resources: readonly BackendItem[] = []
  templates: readonly BackendItem[] = []
  /** As of the last time it was asked for its lists. */
  capabilitiesBefore: Readonly<Record<string, unknown>> = {}
  era: Era | undefined
  /** How it is to be used, as it said when a session was opened or the era was asked for. */
  instructions: string | undefined
  closed = false
  #capabilities: Readonly<Record<string, unknown>> = {}
  #eraUntil = 0
  #detecting: Promise<Era> | undefined
  readonly #links = new Set<Link>()

  constructor({ config, directory, defaultTimeout, client, log }: BackendOptions) {
    this.name = config.name
    this.url = addressOf(config)
    this.path = this.url.pathname + this.url.search
    this.timeoutMs = parseDuration(config.timeout ?? defaultTimeout)
    this.client = client
    this.headers = new ConfiguredHeaders(config, directory)
    this.callOperation = { kind: 'backend-call', name: 'tools/call', attributes: { backend: config.name } }
    this.dispatcher = createTransport({ config, directory, log: log.child({ backend: config.name }) })
    this.house = this.link(undefined, JSON.stringify(WITH_APPS))
  }

  /** Revision spoken with this backend, where it is known. */
  get revision(): string | null {
    if (this.era === undefined) return null
    return this.era.era === 'modern' ? MODERN : (this.house.opened?.revision ?? null)
  }

  /** What it said that it can do, the last time it was asked; empty before. */
  get capabilities(): Readonly<Record<string, unknown>> {
    const said = this.era?.era === 'modern' ? this.era.capabilities : this.house.opened?.capabilities
    if (said !== undefined) this.#capabilities = said
    return this.#capabilities
  }

  /** Whether it runs tool calls as tasks of 2025-11-25. */
  get runsTasks(): boolean {
    return this.era?.era === 'legacy' && declaresTasks(this.capabilities)
  }

  /** Whether it has never been reached: no list of tools, and no answer of another kind. */
  get silent(): boolean {
    const code = this.health.lastError?.code
    return (
      this.tools === undefined && (code === undefined || code === 'backend_unavailable' || code === 'backend_timeout')
    )
  }

  /** A new session with this backend, which is told the capabilities `declared` (JSON text); not opened yet. `closeLink` must be called in the end. */
  link(keeper?: LinkKeeper, declared?: string): Link {
    const link = new Link(this, keeper, declared)
    this.#links.add(link)
    return link
  }

  /** Lets go of a session that goes on at another replica. */
  leaveLink(link: Link): void {
    this.#links.delete(link)
    link.leave()
  }

  closeLink(link: Link): void {
    this.#links.delete(link)
    link.close()
  }

  /** The era, asked for where it isn't known. Rejects with a BackendFailure where the backend proves nothing. */
  detect(): Promise<Era> {
    if (this.era !== undefined) return Promise.resolve(this.era)
    this.#detecting ??= this.probe().finally(() => {
      this.#detecting = undefined
    })
    return this.#detecting
  }

  /** Asks anew where the verdict is old. Calls go on with the old one meanwhile. */
  async review(): Promise<Era> {
    if (this.era === undefined) return this.detect()
    if (performance.now() > this.#eraUntil) await this.probe()
    return this.era
  }

  /** Forgets a verdict that an answer has refuted. */
  doubt(): void {
    this.era = undefined
  }

  /** Asks for the era and, of a modern backend, for its capabilities. Rejects with a BackendFailure. */
  async probe(): Promise<Era> {
    const answer = await this.post({ headers: this.modernHeaders('server/discover'), body: discoverText(this.client) })
    this.era = eraOfAnswer(answer)
    if (this.era.era === 'modern') this.instructions = this.era.instructions
    this.#eraUntil = performance.now() + VERDICT_MS
    return this.era
  }

  /** Headers of a modern request, as a flat list of its own. */
  modernHeaders(method: string): string[] {
    return [
      'content-type',
      'application/json',
      'accept',
      'application/json, text/event-stream',
      'mcp-protocol-version',
      MODERN,
      'mcp-method',
      method,
      ...this.headers.current().list,
    ]
  }

  /** Sends a message of our own. */
  post(request: OwnPost): Promise<BackendAnswer> {
    return requestBackend({
      dispatcher: this.dispatcher,
      path: this.path,
      method: 'POST',
      timeoutMs: Math.min(this.timeoutMs, this.health.policy.timeoutMs),
      ...request,
    })
  }

  /** Ends a session; whether that succeeds is of no consequence. */
  end(headers: string[]): void {
    const { dispatcher, path } = this
    requestBackend({ dispatcher, path, method: 'DELETE', headers, timeoutMs: 5_000 }).catch(() => {})
  }

  /** Ends all sessions, waits for calls in flight and closes the connections. */
  async close(): Promise<void> {
    this.closed = true
    this.callerLinks.clear()
    this.watched.close()
    for (const link of this.#links) this.closeLink(link)
    await this.dispatcher.close()
  }
}
