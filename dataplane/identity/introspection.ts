import { hash } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import type { GuardedFetch } from '../net/guarded-fetch.ts'
import { PublicError } from '../server/errors.ts'
import { growingLru } from '../server/growing-lru.ts'
import { networksOf } from '../server/network-of.ts'
import { type Authenticated, isFor, isSubject, SKEW_S } from './caller.ts'
import { discoverEndpoint } from './discovery.ts'
import { fetchFrom, type Issuer, unanswered } from './issuer-keys.ts'
import type { VerifiedToken } from './token-cache.ts'

/** The introspection settings for opaque tokens of an issuer. The file path is absolute. */
export interface IntrospectionClient {
  readonly clientId?: string | undefined
  readonly clientSecretFile?: string | undefined
  /** The URL of the endpoint; absent: found by discovery, at the issuer's own origin. */
  readonly url?: string | undefined
}

interface IntrospectionOptions {
  readonly issuer: Issuer
  /** Returns the issuer's name; undefined until its API server has named it. */
  issuerName(): string | undefined
  readonly audience: string
  /** The claim with the audience; absent: `aud`. */
  readonly audienceClaim?: string | undefined
  readonly client: IntrospectionClient
  readonly log: Logger
}

const MAX_BYTES = 64 * 1024

/** Introspects opaque tokens at their issuer (RFC 7662), as a client with HTTP Basic authentication. */
export class Introspection {
  readonly #options: IntrospectionOptions
  readonly #fetch: GuardedFetch
  readonly #credentials: () => Record<string, string>
  #endpoint: string | undefined
  #isUnavailable = false

  constructor(options: IntrospectionOptions) {
    const { issuer, client } = options
    this.#options = options
    this.#credentials = readCredentials(client)
    this.#fetch = fetchFrom(issuer, MAX_BYTES)
  }

  close(): Promise<void> {
    return this.#fetch.close()
  }

  /**
   * Returns the caller of a token; undefined if it is inactive or not meant for this server. Throws a PublicError
   * (`unavailable`).
   */
  async introspect(token: string): Promise<Authenticated | undefined> {
    const document = await this.#post(token).catch((error: unknown) => this.#unavailable(error))
    if (this.#isUnavailable) this.#options.log.info({ issuer: this.#options.issuerName() }, 'the issuer answers again')
    this.#isUnavailable = false
    return callerOf(document, this.#options)
  }

  async #post(token: string): Promise<unknown> {
    const { url } = this.#options.client
    this.#endpoint ??= url ?? (await this.#discover())
    const answer = await this.#fetch(
      this.#endpoint,
      {
        ...this.#credentials(),
        'content-type': 'application/x-www-form-urlencoded',
      },
      new URLSearchParams({ token, token_type_hint: 'access_token' }).toString(),
    )
    if (answer.status !== 200) throw new Error(`${this.#endpoint} answered ${answer.status}`)
    return JSON.parse(answer.text)
  }

  /** Discovers the endpoint. It gets secrets and callers' tokens, so one at another origin must be configured. */
  async #discover(): Promise<string> {
    const { issuer = '', insecureAllowHTTP: allowHTTP = false } = this.#options.issuer
    const url = await discoverEndpoint('introspection_endpoint', issuer, this.#fetch, { headers: {}, allowHTTP })
    if (new URL(url).origin === new URL(issuer).origin) return url
    throw new Error(`the introspection endpoint of ${issuer} is at another origin, ${url}: set introspectionUrl to it`)
  }

  #unavailable(error: unknown): never {
    // A discovered endpoint may have moved: the next token causes a new discovery.
    this.#endpoint = undefined
    if (!this.#isUnavailable)
      this.#options.log.warn(
        { issuer: this.#options.issuerName(), err: error },
        'the issuer can’t be asked about a token',
      )
    this.#isUnavailable = true
    throw unanswered(error)
  }
}

function readCredentials({ clientId, clientSecretFile }: IntrospectionClient): () => Record<string, string> {
  if (clientId === undefined || clientSecretFile === undefined) return () => ({})
  const secret = secretFile(clientSecretFile)
  return () => ({ authorization: basicAuthorization(clientId, secret()) })
}

/** Returns the `Authorization` of a client. Name and secret are form-encoded, then joined (RFC 6749 section 2.3.1). */
export function basicAuthorization(clientId: string, secret: string): string {
  const encoded = [clientId, secret].map((part) => new URLSearchParams([['', part]]).toString().slice(1)).join(':')
  return `Basic ${Buffer.from(encoded).toString('base64')}`
}

/** Returns the caller of a response. RFC 7662 requires only `active`; here `exp`, `aud` and `sub` are required too. */
function callerOf(
  answer: unknown,
  { issuerName, audience, audienceClaim = 'aud' }: IntrospectionOptions,
): Authenticated | undefined {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return undefined
  const claims = answer as Record<string, unknown>
  const { active, iss, sub, exp, nbf, token_use: use } = claims
  const now = Date.now() / 1000
  const issuer = issuerName()
  if (active !== true || use === 'refresh_token') return undefined
  if (typeof exp !== 'number' || !Number.isFinite(exp) || exp + SKEW_S <= now) return undefined
  if (!isAfterStart(nbf, now + SKEW_S)) return undefined
  if (issuer === undefined || ((iss ?? undefined) !== undefined && iss !== issuer)) return undefined
  if (!isFor(claims, audienceClaim, audience)) return undefined
  if (!isSubject(sub)) return undefined
  return { kind: 'authenticated', issuer, subject: sub, claims, expiresAt: exp }
}

/** Tells whether `nbf`, if present and not null, is before `latest` (seconds since 1970). */
const isAfterStart = (nbf: unknown, latest: number): boolean =>
  nbf === undefined || nbf === null || (typeof nbf === 'number' && nbf <= latest)

/** The most introspection requests that run at a time. The others wait. */
const MOST_AT_ONCE = 8
const MOST_WAITING = 1_000
/** The queue places that are reserved for light networks. */
const RESERVE_WAITING = 100
/** A network is light if it has no more than this many open requests, and has sent no more inactive tokens lately. */
const LITTLE = 8
/** The most requests that one address may cause, running and waiting. */
const MOST_PER_ADDRESS = 64
/** The limits of a /64, a /56 and a /48 of IPv6 as multiples of that of an IPv4 address. */
const WIDTHS = [1, 2, 4]
/** The number of inactive tokens that an address may send in a row, and the time to gain one more. */
const BURST = 30
const REFILL_MS = 2_000
const MOST_NETWORKS = 10_000
/** The cache lifetime of inactive tokens: short, since an issuer may know a token only a moment after its issue. */
const INACTIVE_MS = 10_000
const MOST_INACTIVE = 10_000
/** The most cached tokens that were active at their last introspection. */
const MOST_ACTIVE = 10_000

interface NetworkBudget {
  readonly width: number
  /** The inactive tokens that it may still send, as of `at` (`performance.now()`). */
  left: number
  at: number
  open: number
}

/** The budgets of the networks that contain an address, the narrowest first. */
type Budgets = readonly NetworkBudget[]

/** Asks the issuers about a token. Returns undefined if none calls it active. */
type Ask = () => Promise<VerifiedToken | undefined>

/**
 * Limits the introspection requests that callers without a valid token can cause: one at a time for a token, none for
 * 10 s after it was inactive, and a budget of inactive tokens for each address (IPv6: /64, /56, /48). A token that was
 * active before is always introspected again. Light networks go first, and have reserved places in the queue.
 */
export class IntrospectionThrottle {
  readonly #pending = new Map<string, ReturnType<Ask>>()
  readonly #inactive = growingLru<number>(MOST_INACTIVE)
  readonly #active = growingLru<true>(MOST_ACTIVE)
  /** One map for each width, so that many narrow networks evict no wide one. */
  readonly #budgets = WIDTHS.map(() => growingLru<NetworkBudget>(MOST_NETWORKS))
  readonly #waiting: (() => void)[] = []
  /** The queue of light networks. */
  readonly #first: (() => void)[] = []
  #running = 0

  /**
   * Returns the result of `request`; undefined if no issuer calls the token active. `address`: its source; undefined
   * for our own requests. Rejects with `rate_limited`, with `unavailable` if too many wait, and with the error of
   * `request`.
   */
  introspect(token: string, address: string | undefined, request: Ask): ReturnType<Ask> {
    const key = hash('sha256', token, 'base64')
    const pending = this.#pending.get(key)
    if (pending !== undefined) return pending
    if ((this.#inactive.peek(key) ?? 0) > performance.now()) return Promise.resolve(undefined)
    const answer = this.#throttled(key, address, request).finally(() => this.#pending.delete(key))
    this.#pending.set(key, answer)
    return answer
  }

  async #throttled(key: string, address: string | undefined, request: Ask): ReturnType<Ask> {
    const isExempt = address === undefined || this.#active.has(key)
    const budgets = isExempt ? [] : this.#findBudgets(address)
    checkBudgets(budgets)
    for (const budget of budgets) budget.open++
    try {
      if (this.#running >= MOST_AT_ONCE) await this.#freeSlot(asksLittle(budgets.at(-1)))
      // Requests of the same address that ended while this one waited may have used up its budget.
      checkBudgets(budgets)
      return await this.#run(key, budgets, request)
    } finally {
      for (const budget of budgets) budget.open--
      // The slot is free even if the check has thrown.
      if (this.#running < MOST_AT_ONCE) (this.#first.shift() ?? this.#waiting.shift())?.()
    }
  }

  async #run(key: string, budgets: Budgets, request: Ask): ReturnType<Ask> {
    this.#running++
    try {
      const answer = await request()
      if (answer === undefined) {
        for (const budget of budgets) budget.left--
        this.#active.delete(key)
        this.#inactive.set(key, performance.now() + INACTIVE_MS)
      } else this.#active.set(key, true)
      return answer
    } finally {
      this.#running--
    }
  }

  #freeSlot(isFirst: boolean): Promise<void> {
    const most = isFirst ? MOST_WAITING : MOST_WAITING - RESERVE_WAITING
    if (this.#waiting.length + this.#first.length >= most)
      throw new PublicError('unavailable', {
        message: 'Too many tokens are being checked.',
        headers: { 'Retry-After': '1' },
      })
    return new Promise((resolve) => (isFirst ? this.#first : this.#waiting).push(resolve))
  }

  /** Returns the budgets of an address, refilled for the time that has passed. */
  #findBudgets(address: string): Budgets {
    const now = performance.now()
    return networksOf(address).map((network, index) => {
      const [budgets, width] = [this.#budgets[index] as LRUCache<string, NetworkBudget>, WIDTHS[index] as number]
      const budget = budgets.get(network) ?? { width, left: BURST * width, at: now, open: 0 }
      budget.left = Math.min(BURST * width, budget.left + ((now - budget.at) * width) / REFILL_MS)
      budget.at = now
      budgets.set(network, budget)
      return budget
    })
  }
}

/** Tells whether the widest network is light; without an address it is our own request or a known token. */
const asksLittle = (widest: NetworkBudget | undefined): boolean =>
  widest === undefined || (widest.open <= LITTLE && widest.left > BURST * widest.width - LITTLE)

function checkBudgets(budgets: Budgets): void {
  const spent = budgets.filter(({ left, open, width }) => left < 1 || open > MOST_PER_ADDRESS * width)
  if (spent.length === 0) return
  const waits = spent.map(({ left, width }) => ((1 - left) * REFILL_MS) / width / 1000)
  const seconds = Math.max(1, Math.ceil(Math.max(...waits)))
  throw new PublicError('rate_limited', {
    message: 'Too many tokens that are not valid have come from this address.',
    headers: { 'Retry-After': String(seconds) },
  })
}
