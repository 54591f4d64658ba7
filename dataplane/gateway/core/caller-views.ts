import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { bearerOf, CredentialCache, forwardedHeaders, type Subject } from '../../credentials/index.ts'
import type { Authenticated, Caller } from '../../identity/caller.ts'
import { PublicError } from '../../server/errors.ts'
import { loginOf } from '../../upstream-tokens/index.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { PersonalBackend } from '../backends/backends.ts'
import { SharedLists } from '../backends/lists/list-memory.ts'
import { cacheBytes } from '../limits/memory-limits.ts'
import type { Exchange } from '../request/exchange.ts'
import type { OwnIssuer } from '../request/own-issuer.ts'
import type { Setup } from '../request/setup.ts'
import { bindingOf } from '../sessions/session.ts'
import { CallerView, type CatalogsBySet, type ViewContext } from './caller-view.ts'
import { SharedCatalogs, type View } from './view.ts'

const ANONYMOUS = bindingOf({ kind: 'anonymous' })
const MOST_VIEWS = 4096
/** The number of absent callers that are forgotten at once to make room. */
const MADE_ROOM = 8
/** The time after which an absent caller is forgotten, with its sessions at its own backends. */
const IDLE_MS = 5 * 60_000
/** The time within which a returning caller keeps its position in the order of last use. */
const ORDER_MS = 1_000

/** A request whose caller is identified. */
interface Admitted extends Pick<Exchange, 'caller' | 'binding'> {
  readonly req: { readonly headers: IncomingHttpHeaders }
}

interface Binding {
  readonly binding: string
  /** The binding, and the other facts that the caller's credentials depend on. */
  readonly key: string
  readonly personal: readonly PersonalBackend[]
  readonly hasLogins: boolean
}

interface CallerViewsOptions {
  readonly host: { readonly setup: Pick<Setup, 'config'> & { readonly ownIssuer: Pick<OwnIssuer, 'hasLogins'> } }
  /** `personal`: the backends that use each caller's credential. */
  readonly backends: { readonly personal: readonly PersonalBackend[] }
  /** The view of the backends that use no caller's credential. Its version changes with its lists. */
  readonly shared: View & { readonly version: number }
  /** Reports that one caller's lists have changed. `before`: its catalogs by the key of the set of shown backends. */
  onChange(view: CallerView, before: CatalogsBySet): void
  /** Returns the callers that have requests or streams open. */
  busy(): readonly { readonly binding: string }[]
  onGone(backend: Backend): void
  /** Reports that a caller's own backend has returned its lists. */
  onListed(backend: Backend): void
  readonly memoryBytes?: number | undefined
}

/** The views of all callers, if some backend uses credentials of its callers. */
export class CallerViews {
  readonly #options: CallerViewsOptions
  /** The views by key, the least recently used first. */
  readonly #views = new Map<string, CallerView>()
  /** The most recently used view of each binding. */
  readonly #latest = new Map<string, CallerView>()
  readonly #context: ViewContext
  /** The most bytes of the callers' claims, and their current bytes. */
  readonly #mostClaims: number
  #claims = 0
  /** The bindings of callers, with the other facts that their credentials depend on. */
  readonly #bindings = new WeakMap<Caller, Binding>()

  constructor(options: CallerViewsOptions) {
    this.#options = options
    const { host, backends, shared, memoryBytes } = options
    const mostBytes = cacheBytes(memoryBytes)
    this.#mostClaims = mostBytes
    const fixed = {
      cache: new CredentialCache(),
      lists: new SharedLists(),
      catalogs: new SharedCatalogs(mostBytes),
      shared,
      changed: (view: CallerView, before: CatalogsBySet) => this.#changed(view, before),
      listed: (backend: Backend) => options.onListed(backend),
    }
    this.#context = {
      ...fixed,
      get config() {
        return host.setup.config
      },
      get personal() {
        return backends.personal
      },
      get version() {
        return shared.version
      },
    }
  }

  /**
   * Returns the view of an admitted request's caller, by the caller's name or by the credential in the request;
   * undefined for the shared view. Throws `unavailable` if there are too many callers.
   */
  viewFor(request: Admitted): CallerView | undefined {
    const personal = this.#options.backends.personal
    if (personal.length === 0) return undefined
    const { caller, req } = request
    if (caller.kind === 'authenticated') return this.#openView(request, caller)
    return bringsCredential(personal, req.headers) ? this.#viewOfBringer(request, personal) : undefined
  }

  #openView({ binding, req }: Admitted, caller: Authenticated): CallerView {
    const { key } = this.#named(caller)
    let view = this.#views.get(key)
    // A caller stays the same object while its token is known.
    if (view?.caller !== caller) {
      const subject = this.#buildSubject(caller, req.headers)
      view ??= this.#open(binding, subject, key)
      this.#claims += measureClaims(caller) - measureClaims(view.caller)
      view.isOf(subject, caller)
    }
    return this.#entered(view)
  }

  /** Returns the view of a caller who sends a credential for the server. Different credentials share nothing. */
  #viewOfBringer({ req }: Admitted, personal: readonly PersonalBackend[]): CallerView | undefined {
    const names = personal.flatMap(({ forwards }) => forwards ?? [])
    const forwarded = forwardedHeaders(names, req.headers)
    if (forwarded === undefined) return undefined
    const subject = bearerOf(forwarded)
    const binding = bindingOf({ kind: 'authenticated', expiresAt: 0, ...subject })
    return this.#entered(this.#views.get(binding) ?? this.#open(binding, subject))
  }

  #entered(view: CallerView): CallerView {
    const now = performance.now()
    if (now - view.usedAt > ORDER_MS) {
      this.#views.delete(view.key)
      this.#views.set(view.key, view)
      view.keep()
    }
    if (this.#latest.get(view.binding) !== view) this.#latest.set(view.binding, view)
    view.arrived(now)
    return view
  }

  /** Returns the name under which a caller's state is stored. */
  bindingOf(caller: Caller): string {
    return this.#named(caller).binding
  }

  #named(caller: Caller): Binding {
    const personal = this.#options.backends.personal
    const hasLogins = this.#options.host.setup.ownIssuer.hasLogins
    const known = this.#bindings.get(caller)
    if (known !== undefined && known.personal === personal && known.hasLogins === hasLogins) return known
    const binding = this.#newBinding(caller)
    const named = { binding, key: binding + this.#computeDigest(caller), personal, hasLogins }
    this.#bindings.set(caller, named)
    return named
  }

  #newBinding(caller: Caller): string {
    const login = this.#findLogin(caller)
    const variants = caller.kind === 'anonymous' ? [] : this.#listVariants(caller)
    // Claims that determine the caller's rights at a backend are part of the caller's identity.
    const part = variants.length === 0 ? login : hash('sha256', JSON.stringify([login, ...variants]), 'base64url')
    return bindingOf(caller, part)
  }

  #listVariants(caller: Pick<Subject, 'claims'>): readonly string[] {
    const variants = this.#options.backends.personal.map(({ strategy }) => strategy.variant?.(caller) ?? '')
    return variants.every((variant) => variant === '') ? [] : variants
  }

  /**
   * Returns a digest of the other facts that a caller's credentials depend on; empty for most callers. It contains no
   * NUL.
   */
  #computeDigest(caller: Caller): string {
    if (caller.kind === 'anonymous') return ''
    const digests = this.#options.backends.personal.map(({ strategy }) => strategy.digest?.(caller) ?? '')
    return digests.every((one) => one === '') ? '' : `\0${digests.join('\0')}`
  }

  #findLogin(caller: Caller): string | undefined {
    return this.#options.host.setup.ownIssuer.hasLogins && caller.kind === 'authenticated'
      ? loginOf(caller.claims)
      : undefined
  }

  #buildSubject(caller: Authenticated, headers: IncomingHttpHeaders): Subject {
    const { issuer, subject, claims } = caller
    return { issuer, subject, claims, login: this.#findLogin(caller), token: readToken(headers.authorization) }
  }

  #open(binding: string, subject: Subject, key = binding): CallerView {
    if (this.#isFull) this.#forget(0, MADE_ROOM)
    if (this.#isFull)
      throw new PublicError('unavailable', {
        message: 'Too many callers are served at the moment; try again.',
        headers: { 'retry-after': '10' },
      })
    return new CallerView(this.#context, binding, subject, key)
  }

  get #isFull(): boolean {
    return this.#views.size >= MOST_VIEWS || this.#claims >= this.#mostClaims
  }

  /** Returns the caller's own backend with this name, or the shared one; undefined for an unknown caller. */
  findBackend(binding: string, name: string): Backend | undefined {
    const view = this.#latest.get(binding)
    if (view !== undefined) return view.findBackend(name)
    const { personal, shared } = this.#context
    const isPersonal = binding !== ANONYMOUS && personal.some((one) => one.shared.name === name)
    return isPersonal ? undefined : shared.findBackend(name)
  }

  /** Tells whether some backend uses credentials of its callers. */
  get hasOwn(): boolean {
    return this.#options.backends.personal.length > 0
  }

  /** Returns the most recently used view of a binding; undefined if it has no view of its own. */
  latest(binding: string): CallerView | undefined {
    return this.#latest.get(binding)
  }

  /** Returns this caller's view outside of a request; for an unknown caller the shared view. */
  known(binding: string): View {
    return this.#latest.get(binding) ?? this.#context.shared
  }

  backendsOf(name: string): readonly Backend[] {
    return [...this.#views.values()].flatMap(({ own }) => own.filter((backend) => backend.name === name))
  }

  /** The number of callers whose own lists of a backend are truncated, by the backend's name. */
  get cut(): ReadonlyMap<string, number> {
    const cut = new Map<string, number>()
    for (const { own } of this.#views.values())
      for (const { name, lists } of own) if (lists.areCut) cut.set(name, (cut.get(name) ?? 0) + 1)
    return cut
  }

  /** Notifies callers with open requests or streams of changes that the new pins make in their own lists. */
  approvedAnew(): void {
    const busy = new Set(this.#views.size === 0 ? [] : this.#options.busy().map(({ binding }) => binding))
    for (const view of this.#views.values()) {
      for (const backend of view.own) this.#options.onListed(backend)
      if (busy.has(view.binding)) view.listsChanged()
    }
  }

  #changed(view: CallerView, before: CatalogsBySet): void {
    if (this.#views.get(view.key) === view) this.#options.onChange(view, before)
  }

  /** Forgets absent callers, and ends idle backend sessions of the others; `now` in milliseconds since 1970. */
  sweep(now: number): void {
    this.#forget(IDLE_MS, Number.POSITIVE_INFINITY)
    this.#context.catalogs.keepOnly(new Set([...this.#views.values()].flatMap(({ kept }) => [...kept])))
    for (const view of this.#views.values()) for (const { callerSessions } of view.own) callerSessions.sweep(now)
  }

  /** Forgets at most `most` callers that have been absent for this time and have nothing open. */
  #forget(idleMs: number, most: number): void {
    const busy = new Set(this.#views.size === 0 ? [] : this.#options.busy().map(({ binding }) => binding))
    const before = performance.now() - idleMs
    let left = most
    for (const [key, view] of this.#views) {
      if (left === 0 || view.usedAt > before) return
      if (busy.has(view.binding)) continue
      this.#views.delete(key)
      this.#drop(view)
      left--
    }
  }

  #drop(view: CallerView): void {
    if (this.#latest.get(view.binding) === view) this.#latest.delete(view.binding)
    this.#claims -= measureClaims(view.caller)
    for (const backend of view.own) this.#options.onGone(backend)
  }

  async close(): Promise<void> {
    const backends = [...this.#views.values()].flatMap(({ own }) => own)
    this.#views.clear()
    this.#latest.clear()
    await Promise.all(backends.map((backend) => backend.close()))
  }
}

const measureClaims = (caller: Caller | undefined): number =>
  caller?.kind === 'authenticated' ? (caller.bytes ?? 0) : 0

/** Tells whether a request has any of the passed headers. It runs for each request, so it allocates nothing. */
function bringsCredential(personal: readonly PersonalBackend[], headers: IncomingHttpHeaders): boolean {
  for (const { forwards } of personal)
    if (forwards !== undefined) for (const name of forwards) if (headers[name] !== undefined) return true
  return false
}

/** Returns the token in an `Authorization` header that was accepted. */
const readToken = (authorization = ''): string => authorization.slice(authorization.indexOf(' ')).trim()
