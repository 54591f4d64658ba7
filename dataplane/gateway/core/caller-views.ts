import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { GatewayConfig } from '../../config/gateway.ts'
import { bearerOf, CredentialCache, forwardedHeaders, type Subject } from '../../credentials/index.ts'
import type { Authenticated, Caller } from '../../identity/caller.ts'
import { PublicError } from '../../server/errors.ts'
import { loginOf } from '../../upstream-tokens/index.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import type { Backend } from '../backends/backend/backend.ts'
import { SharedLists } from '../backends/lists/shared-lists.ts'
import type { PersonalBackend } from '../backends/personal-backend.ts'
import { bindingOf } from '../sessions/binding.ts'
import { CallerView, type ViewGround } from './caller-view.ts'
import { SharedCatalogs } from './shared-catalogs.ts'
import type { View } from './view.ts'

const MIB = 1024 * 1024
const ANONYMOUS = bindingOf({ kind: 'anonymous' })
const MOST_VIEWS = 4096
/** So many callers that are away are forgotten at once to make room. */
const MADE_ROOM = 8
/** A caller who has been away for so long is forgotten, with sessions at the caller's backends. */
const IDLE_MS = 5 * 60_000
/** A caller who comes again within this time keeps the place in the order of use. */
const ORDER_MS = 1_000

/** A request whose caller is known. */
interface Admitted {
  readonly caller: Caller
  readonly req: { readonly headers: IncomingHttpHeaders }
  /** The name by which things of the caller are kept (`bindingOf`). */
  readonly binding: string
}

interface Binding {
  readonly binding: string
  /** The name by which the view is kept: the same, and what credentials depend on besides. */
  readonly key: string
  readonly personal: readonly PersonalBackend[]
  readonly hasLogins: boolean
}

interface CallerViewsOptions {
  /** Where it says what is in force now. */
  readonly host: { readonly setup: InForce }
  /** `personal`: those for which each caller has a credential. */
  readonly backends: { readonly personal: readonly PersonalBackend[] }
  /** What nobody's credential is sent for; its version changes with its lists. */
  readonly shared: View & { readonly version: number }
  /** What one caller sees has changed. */
  onChange(binding: string, before: Catalogs, after: Catalogs): void
  /** Everybody who waits for something. */
  busy(): readonly { readonly binding: string }[]
  /** A caller's own backend is let go of. */
  onGone(backend: Backend): void
  /** Memory of the container, where it has a limit. */
  readonly memoryBytes?: number | undefined
}

interface InForce {
  readonly config: GatewayConfig
  /** Whether logins of one caller are kept apart: each of them has tokens of upstream providers of its own. */
  readonly ownIssuer: { readonly hasLogins: boolean }
}

/** What each caller sees, where some backend gets credentials of its callers. */
export class CallerViews {
  readonly #options: CallerViewsOptions
  /** By key, the one that was not used for longest first. */
  readonly #views = new Map<string, CallerView>()
  /** Of each binding the one that was used last. */
  readonly #latest = new Map<string, CallerView>()
  readonly #ground: ViewGround
  /** Bytes that the claims of their callers may take, and take now. */
  readonly #mostClaims: number
  #claims = 0
  /** Names of callers, under what they depend on besides. */
  readonly #bindings = new WeakMap<Caller, Binding>()

  constructor(options: CallerViewsOptions) {
    this.#options = options
    const { host, backends, shared, memoryBytes = 512 * MIB } = options
    const mostBytes = Math.max(memoryBytes / 16, 16 * MIB)
    this.#mostClaims = mostBytes
    const fixed = {
      cache: new CredentialCache(),
      lists: new SharedLists(),
      catalogs: new SharedCatalogs(mostBytes),
      shared,
      changed: (view: CallerView, before: Catalogs) => this.#changed(view, before),
    }
    this.#ground = {
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
   * What the caller of a request that has been let in sees, by its own name or by that of whoever brings a credential in the
   * request; undefined where that is what all see. Throws `unavailable` where there are too many callers.
   */
  viewFor(request: Admitted): CallerView | undefined {
    const personal = this.#options.backends.personal
    if (personal.length === 0) return undefined
    const { caller, req } = request
    if (caller.kind === 'authenticated') return this.#viewOf(request, caller)
    return bringsCredential(personal, req.headers) ? this.#viewOfBringer(request, personal) : undefined
  }

  #viewOf({ binding, req }: Admitted, caller: Authenticated): CallerView {
    const { key } = this.#named(caller)
    let view = this.#views.get(key)
    // A caller is one object for as long as its token is known.
    if (view?.caller !== caller) {
      const subject = this.#subjectOf(caller, req.headers)
      view ??= this.#open(binding, subject, key)
      this.#claims += claimsOf(caller) - claimsOf(view.caller)
      view.isOf(subject, caller)
    }
    return this.#entered(view)
  }

  /** Who brings a credential for the server has nothing in common with whoever brings another one. */
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

  /** The name by which things of a caller are kept. */
  bindingOf(caller: Caller): string {
    return this.#named(caller).binding
  }

  #named(caller: Caller): Binding {
    const personal = this.#options.backends.personal
    const hasLogins = this.#options.host.setup.ownIssuer.hasLogins
    const known = this.#bindings.get(caller)
    if (known !== undefined && known.personal === personal && known.hasLogins === hasLogins) return known
    const binding = this.#newBinding(caller)
    const named = { binding, key: binding + this.#digestOf(caller), personal, hasLogins }
    this.#bindings.set(caller, named)
    return named
  }

  #newBinding(caller: Caller): string {
    const login = this.#loginOf(caller)
    const variants = caller.kind === 'anonymous' ? [] : this.#variantsOf(caller)
    // Claims that say what somebody may do elsewhere are part of who calls.
    const part = variants.length === 0 ? login : hash('sha256', JSON.stringify([login, ...variants]), 'base64url')
    return bindingOf(caller, part)
  }

  #variantsOf(caller: Pick<Subject, 'claims'>): readonly string[] {
    const variants = this.#options.backends.personal.map(({ strategy }) => strategy.variant?.(caller) ?? '')
    return variants.every((variant) => variant === '') ? [] : variants
  }

  /** What credentials of the caller depend on besides; empty for most. NUL is in none of it. */
  #digestOf(caller: Caller): string {
    if (caller.kind === 'anonymous') return ''
    const digests = this.#options.backends.personal.map(({ strategy }) => strategy.digest?.(caller) ?? '')
    return digests.every((one) => one === '') ? '' : `\0${digests.join('\0')}`
  }

  #loginOf(caller: Caller): string | undefined {
    return this.#options.host.setup.ownIssuer.hasLogins && caller.kind === 'authenticated'
      ? loginOf(caller.claims)
      : undefined
  }

  #subjectOf(caller: Authenticated, headers: IncomingHttpHeaders): Subject {
    const { issuer, subject, claims } = caller
    return { issuer, subject, claims, login: this.#loginOf(caller), token: tokenIn(headers.authorization) }
  }

  #open(binding: string, subject: Subject, key = binding): CallerView {
    if (this.#isFull) this.#forget(0, MADE_ROOM)
    if (this.#isFull)
      throw new PublicError('unavailable', {
        message: 'Too many callers are served at the moment; try again.',
        headers: { 'retry-after': '10' },
      })
    return new CallerView(this.#ground, binding, subject, key)
  }

  get #isFull(): boolean {
    return this.#views.size >= MOST_VIEWS || this.#claims >= this.#mostClaims
  }

  /** The caller's own backend of this name, or the one that is everybody's. Undefined where the caller is not known here. */
  backendNamed(binding: string, name: string): Backend | undefined {
    const view = this.#latest.get(binding)
    if (view !== undefined) return view.backendNamed(name)
    const { personal, shared } = this.#ground
    const isPersonal = binding !== ANONYMOUS && personal.some((one) => one.shared.name === name)
    return isPersonal ? undefined : shared.backendNamed(name)
  }

  /** What this caller sees, for what is not in a request; what all see where the caller is not known here. */
  known(binding: string): View {
    return this.#latest.get(binding) ?? this.#ground.shared
  }

  /** How many callers there are whose own lists of a backend (its name) are cut. */
  get cut(): ReadonlyMap<string, number> {
    const cut = new Map<string, number>()
    for (const { own } of this.#views.values())
      for (const { name, lists } of own) if (lists.areCut) cut.set(name, (cut.get(name) ?? 0) + 1)
    return cut
  }

  #changed(view: CallerView, before: Catalogs): void {
    const { binding, key } = view
    if (this.#views.get(key) === view) this.#options.onChange(binding, before, view.catalogs)
  }

  /** Forgets callers who are away, and ends idle sessions of the others at their backends; `now` in milliseconds since 1970. */
  sweep(now: number): void {
    this.#forget(IDLE_MS, Number.POSITIVE_INFINITY)
    this.#ground.catalogs.keepOnly(new Set([...this.#views.values()].map(({ kept }) => kept)))
    for (const view of this.#views.values()) for (const { callerSessions } of view.own) callerSessions.sweep(now)
  }

  /** Forgets callers who have been away for so long and wait for nothing, at most so many. */
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
    this.#claims -= claimsOf(view.caller)
    for (const backend of view.own) this.#options.onGone(backend)
  }

  /** Ends all. */
  async close(): Promise<void> {
    const backends = [...this.#views.values()].flatMap(({ own }) => own)
    this.#views.clear()
    this.#latest.clear()
    await Promise.all(backends.map((backend) => backend.close()))
  }
}

/** Bytes that the claims of a caller take. */
const claimsOf = (caller: Caller | undefined): number => (caller?.kind === 'authenticated' ? (caller.bytes ?? 0) : 0)

/** Whether a request has any of the headers that are handed on. Asked of each request: it allocates nothing. */
function bringsCredential(personal: readonly PersonalBackend[], headers: IncomingHttpHeaders): boolean {
  for (const { forwards } of personal)
    if (forwards !== undefined) for (const name of forwards) if (headers[name] !== undefined) return true
  return false
}

/** The token in a header that was found good. */
const tokenIn = (authorization = ''): string => authorization.slice(authorization.indexOf(' ')).trim()
