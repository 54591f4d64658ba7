import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { PublicError } from '../server/errors.ts'
import type { Observe } from '../telemetry/observe.ts'
import {
  type Authenticate,
  type Authenticated,
  boundKey,
  type Caller,
  type CallerRequest,
  isBoundToKey,
  SKEW_S,
} from './caller.ts'
import { type ChallengeOptions, insufficientScope, unauthenticated } from './challenge.ts'
import { Issuers, type OpenProvider, type Provider } from './issuers.ts'
import { callerOf, isAllowedSubject, isOpaque, issuerOf, problemOf, verifyJwt } from './jwt.ts'
import { ProofError } from './proof/proof.ts'
import type { ProofGuard } from './proof/proof-guard.ts'
import { hasScopes, statedScopes } from './scopes.ts'
import { digestOf, type KnownToken, type VerifiedToken } from './token-cache.ts'

export interface VerifyOptions {
  readonly realm: string
  readonly scopes?: readonly string[] | undefined
  /** Returns the absolute metadata URL for challenges; undefined if no public URL is known. */
  resourceMetadataUrl(headers?: IncomingHttpHeaders): string | undefined
  /** Returns the client address of a request; absent: the peer of its connection. */
  addressOf?(request: CallerRequest): string | undefined
  readonly log: Logger
  readonly observe: Observe
  /** Keys and tokens from before a reload; absent: none. */
  readonly issuers?: Issuers
  /** Checks proofs of possession; absent: a token that is bound to a key is refused. */
  readonly proofs?: ProofGuard | undefined
}

export type Verifier = Authenticate & {
  /** Checks the token of an admitted request again. Its proof, if any, is not checked again. */
  recheck(authorization: string | undefined): Caller | Promise<Caller>
  issuers(): readonly string[]
  /** Returns the error for a token that lacks scopes. `scopes`: all to ask for, including those of the token. */
  stepUp(request: CallerRequest, scopes: readonly string[]): PublicError
  close(): Promise<void>
}

/** Token types whose issuers must state scopes (RFC 9068 section 2.2.3). Without the claim a token has none. */
const ACCESS_TOKEN_TYPES = new Set(['at+jwt', 'application/at+jwt'])
const NO_SCOPES: ReadonlySet<string> = new Set()
/** The most characters of a cached header, and of all of them with the results for their tokens. */
const LONGEST_REMEMBERED = 2048
const MOST_REMEMBERED = 8 * 1024 * 1024
/** The time within which a repeated header keeps its place in the order of use. */
const ORDER_MS = 1_000
/** The number of characters at a header's end by which it is looked up. Hashing the whole header takes far longer. */
const TAIL = 48
/** RFC 6750 section 2.1; the scheme's case doesn't matter (RFC 9110 section 11.1). */
const BEARER = /^bearer +([\w.~+/-]+=*) *$/i
/** RFC 9449 section 7.1. */
const DPOP = /^dpop +([\w.~+/-]+=*) *$/i
const isDpop = (authorization = '') => /^dpop\b/i.test(authorization)

/**
 * Creates the verifier of access tokens of several issuers. A JWT is tried with the providers of its own `iss`; any
 * other token is opaque and introspected. A JWT that fails is never introspected.
 */
export function verifyTokens(providers: readonly Provider[], options: VerifyOptions): Verifier {
  const verifier = new TokenVerifier(providers, options)
  const { proofs } = options
  const authenticate: Authenticate = (authorization, request) => {
    const known = authorization === undefined ? undefined : verifier.again(authorization, request)
    if (known !== undefined) return known
    if (authorization !== undefined && proofs !== undefined && isDpop(authorization))
      return verifier.proven(proofs, authorization, request)
    if (authorization === undefined || !/^bearer\b/i.test(authorization)) throw verifier.refusal(request)
    if (proofs?.isRequired) throw verifier.refusal(request, 'The token must come with a proof of possession (DPoP).')
    const token = BEARER.exec(authorization)?.[1]
    if (token === undefined) throw verifier.refusal(request, 'The token is malformed.')
    return verifier.verified(authorization, token, request) ?? verifier.verify(token, request)
  }
  return Object.assign(authenticate, {
    recheck(authorization: string | undefined) {
      const token = proofs === undefined ? undefined : DPOP.exec(authorization ?? '')?.[1]
      return token === undefined ? authenticate(authorization) : verifier.boundCaller(token)
    },
    issuers: () => verifier.issuers(),
    stepUp: (request: CallerRequest, scopes: readonly string[]) => verifier.stepUp(request, scopes),
    close: () => verifier.close(),
  })
}

const MALFORMED = { code: 'invalid_token', message: 'The token is malformed.' } as const
const UNBOUND = { code: 'invalid_token', message: 'The token is bound to no key that a proof can show.' } as const

interface Remembered {
  readonly authorization: string
  readonly known: KnownToken
  /** The time of its last use, within about a second, in milliseconds since 1970. */
  usedAt: number
}

class TokenVerifier {
  readonly #options: VerifyOptions
  readonly #issuers: Issuers
  readonly #known: OpenProvider[]
  readonly #introspecting: readonly OpenProvider[]
  readonly #accepted: ReadonlySet<string>
  /** The hash of the introspecting providers: an introspection result holds for the same providers only. */
  readonly #introspectingKey: string
  /** Valid headers by their last characters, because the digest is the slowest step for a cached token. */
  readonly #remembered = new LRUCache<string, Remembered>({ maxSize: MOST_REMEMBERED })
  #saidNoScopes = false
  readonly #addressOf: (request: CallerRequest) => string | undefined

  constructor(providers: readonly Provider[], options: VerifyOptions) {
    const { log, issuers = new Issuers(), addressOf = ({ socket }) => socket.remoteAddress } = options
    this.#options = options
    this.#issuers = issuers
    this.#addressOf = addressOf
    this.#known = providers.map((provider) => issuers.open(provider, log))
    this.#introspecting = this.#known.filter(({ introspection }) => introspection !== undefined)
    this.#accepted = new Set(this.#known.map(({ identity }) => identity))
    this.#introspectingKey = hash(
      'sha256',
      JSON.stringify(this.#introspecting.map(({ identity }) => identity)),
      'base64',
    )
  }

  /** Returns the caller of a header that was valid a moment ago. Throws like `verified`. It runs for each request. */
  again(authorization: string, request?: CallerRequest): Caller | undefined {
    const end = authorization.slice(-TAIL)
    const remembered = this.#remembered.peek(end)
    if (remembered === undefined || remembered.authorization !== authorization) return undefined
    const now = Date.now()
    if (remembered.known.until <= now) {
      this.#remembered.delete(end)
      return undefined
    }
    if (now - remembered.usedAt > ORDER_MS) {
      remembered.usedAt = now
      this.#remembered.get(end)
    }
    return this.#callerOf(remembered.known, request)
  }

  /** Returns the caller of a bearer token that was verified a moment ago. Throws a PublicError if it lacks a scope. */
  verified(authorization: string, token: string, request?: CallerRequest): Caller | undefined {
    const known = this.#issuers.verified.get(digestOf(token), this.#accepted)
    if (known === undefined) return undefined
    const caller = this.#callerOf(known, request)
    if (authorization.length <= LONGEST_REMEMBERED) {
      const remembered = { authorization, known, usedAt: Date.now() }
      this.#remembered.set(authorization.slice(-TAIL), remembered, {
        size: authorization.length + (known.caller.bytes ?? 0),
      })
    }
    return caller
  }

  /**
   * Returns the caller of a verified token. Throws a PublicError if it is revoked, lacks a scope, or is bound and was
   * sent as a bearer token.
   */
  #callerOf(verified: VerifiedToken, request?: CallerRequest, scheme?: 'DPoP'): Caller {
    const { caller, lacksScope, isBound } = verified
    if (isBound && scheme === undefined)
      throw this.refusal(request, 'The token is bound to a key of its holder, so it is not accepted as a bearer token.')
    this.#checkRevoked(caller, request, scheme)
    if (lacksScope) throw insufficientScope(this.#challengeOf(request, scheme))
    return caller
  }

  /** Throws if an issuer in this process has revoked the token of a caller. */
  #checkRevoked(caller: Caller, request?: CallerRequest, scheme?: 'DPoP'): void {
    if (caller.kind !== 'authenticated') return
    const isRevoked = this.#known.some(
      ({ provider: { local } }) => local?.issuer === caller.issuer && local.isRevoked(caller.claims),
    )
    if (isRevoked) throw this.refusal(request, 'The token has been revoked.', { scheme })
  }

  /** Returns the caller of a bearer token. Rejects with a PublicError if it is invalid, or can't be checked now. */
  async verify(token: string, request?: CallerRequest): Promise<Caller> {
    return (await this.#observed(token, request)).caller
  }

  /** Returns the caller of a token that is bound to a key. Rejects with a PublicError if it is not valid any more. */
  async boundCaller(token: string): Promise<Caller> {
    const known = this.#issuers.verified.get(digestOf(token), this.#accepted)
    return known === undefined
      ? (await this.#observed(token, undefined, 'DPoP')).caller
      : this.#callerOf(known, undefined, 'DPoP')
  }

  /** Returns the caller of a token with a proof of possession. Throws or rejects with a PublicError. */
  proven(proofs: ProofGuard, authorization: string, request?: CallerRequest): Caller | Promise<Caller> {
    const token = DPOP.exec(authorization)?.[1]
    if (token === undefined || request === undefined) throw this.#badProof(request, MALFORMED)
    const known = this.#issuers.verified.get(digestOf(token), this.#accepted)
    if (known !== undefined) return this.#provenCaller(proofs, token, known, request)
    return this.#observed(token, request, 'DPoP').then((verified) =>
      this.#provenCaller(proofs, token, verified, request),
    )
  }

  #provenCaller(
    proofs: ProofGuard,
    token: string,
    verified: VerifiedToken,
    request: CallerRequest,
  ): Caller | Promise<Caller> {
    const { claims, issuer, subject } = verified.caller
    const jkt = boundKey(claims)
    if (jkt === undefined) throw this.#badProof(request, UNBOUND)
    try {
      const checked = proofs.check(request, { token, jkt, caller: `${issuer}\0${subject}` })
      if (checked === undefined) return this.#callerOf(verified, request, 'DPoP')
      return checked.then(
        () => this.#callerOf(verified, request, 'DPoP'),
        (error: unknown) => {
          throw this.#proofProblem(request, error)
        },
      )
    } catch (error) {
      throw this.#proofProblem(request, error)
    }
  }

  #proofProblem = (request: CallerRequest, error: unknown): unknown =>
    error instanceof ProofError ? this.#badProof(request, error) : error

  #badProof(request: CallerRequest | undefined, { code, message }: Pick<ProofError, 'code' | 'message'>): PublicError {
    const { nonce } = this.#options.proofs ?? {}
    return unauthenticated(
      { ...this.#challengeOf(request, 'DPoP'), error: code, problem: message },
      { headers: nonce === undefined ? {} : { 'DPoP-Nonce': nonce } },
    )
  }

  /** Verifies a token for the scheme of its request, and reports the outcome. Throws like `verify`. */
  async #observed(token: string, request?: CallerRequest, scheme?: 'DPoP'): Promise<VerifiedToken> {
    const observed = this.#options.observe({ kind: 'decision', name: 'authenticate' })
    try {
      const verify = isOpaque(token)
        ? this.#verifyOpaque(token, request, scheme)
        : this.#verifyJwt(token, request, scheme)
      const verified = await verify
      this.#callerOf(verified, request, scheme)
      observed.end({ result: 'ok' })
      return verified
    } catch (error) {
      const code = error instanceof PublicError ? error.code : 'internal'
      observed.end({ result: code === 'unauthenticated' || code === 'insufficient_scope' ? 'denied' : 'error', code })
      throw error
    }
  }

  /** Returns the error for a request without a valid token. `scheme`: of the request, if it is not Bearer. */
  refusal(
    request?: CallerRequest,
    problem?: string,
    { scheme, cause }: { readonly scheme?: 'DPoP' | undefined; readonly cause?: unknown } = {},
  ): PublicError {
    const challenge = this.#challengeOf(request, scheme)
    return unauthenticated(
      { ...challenge, ...(problem !== undefined && { problem, error: 'invalid_token' }) },
      { cause },
    )
  }

  stepUp(request: CallerRequest, scopes: readonly string[]): PublicError {
    const scheme = isDpop(request.headers.authorization) ? 'DPoP' : undefined
    return insufficientScope({ ...this.#challengeOf(request, scheme), scopes })
  }

  #challengeOf(request?: CallerRequest, scheme?: 'DPoP'): ChallengeOptions {
    const { realm, scopes, proofs } = this.#options
    const resourceMetadataUrl = this.#options.resourceMetadataUrl(request?.headers)
    return { realm, scopes, resourceMetadataUrl, scheme, proofs }
  }

  issuers(): readonly string[] {
    return [...new Set(this.#known.flatMap(({ keys }) => keys.issuer ?? []))]
  }

  async close(): Promise<void> {
    await Promise.all(this.#known.splice(0).map((provider) => provider.close()))
  }

  async #verifyOpaque(token: string, request?: CallerRequest, scheme?: 'DPoP'): Promise<VerifiedToken> {
    const verified =
      this.#introspecting.length === 0
        ? undefined
        : await this.#issuers.introspections.introspect(
            this.#introspectingKey + token,
            request && this.#addressOf(request),
            () => this.#introspect(token),
          )
    if (verified === undefined) throw this.refusal(request, 'The token is not valid.', { scheme })
    return verified
  }

  /** Introspects a token. Undefined if inactive; throws if an issuer is unreachable and no other accepts it. */
  async #introspect(token: string): Promise<VerifiedToken | undefined> {
    let unavailable: unknown
    for (const open of this.#introspecting) {
      const { provider, keys, introspection } = open
      try {
        if (keys.issuer === undefined) await keys.rediscoverIssuer()
        const answer = await introspection?.introspect(token)
        if (answer === undefined || !isAllowedSubject(answer.subject, provider)) continue
        return this.#remember(token, answer, open)
      } catch (error) {
        unavailable = error
      }
    }
    if (unavailable !== undefined) throw unavailable
    return undefined
  }

  /** Caches the result for a token, even if it lacks a scope, because a client may keep sending it. */
  #remember(token: string, caller: Authenticated, open: OpenProvider, typ?: string): VerifiedToken {
    const verified = {
      caller: { ...caller, bytes: jsonMemory(caller.claims) },
      lacksScope: this.#lacksScope(caller, open, typ),
      isBound: isBoundToKey(caller.claims),
    }
    const expiresAt = (caller.expiresAt + SKEW_S) * 1000
    this.#issuers.verified.set(token, verified, { provider: open.identity, expiresAt })
    return verified
  }

  /**
   * Tells whether a token lacks a required scope. If an issuer writes no scopes, none are required, and the log says so
   * once.
   */
  #lacksScope({ claims }: Authenticated, { requiredScopes, provider, keys }: OpenProvider, typ?: string): boolean {
    if (requiredScopes.length === 0) return false
    const stated = statedScopes(claims) ?? (ACCESS_TOKEN_TYPES.has(typ ?? '') ? NO_SCOPES : undefined)
    if (stated !== undefined) return !hasScopes(stated, requiredScopes, provider.audience)
    if (!this.#saidNoScopes)
      this.#options.log.warn(
        { issuer: keys.issuer },
        'tokens have neither scope nor scp, so no scope is required of them',
      )
    this.#saidNoScopes = true
    return false
  }

  async #findCandidates(issuer: string | undefined): Promise<readonly OpenProvider[]> {
    if (issuer === undefined) return []
    const found = this.#known.filter(({ keys }) => keys.issuer === issuer)
    if (found.length > 0) return found
    await Promise.all(this.#known.map(({ keys }) => keys.rediscoverIssuer()))
    return this.#known.filter(({ keys }) => keys.issuer === issuer)
  }

  async #verifyJwt(token: string, request?: CallerRequest, scheme?: 'DPoP'): Promise<VerifiedToken> {
    const issuer = issuerOf(token)
    const candidates = await this.#findCandidates(issuer)
    let failure: unknown = new Error('a token of an issuer that is not configured')
    let unavailable: PublicError | undefined
    for (const open of candidates) {
      const { provider, keys } = open
      try {
        const { payload, protectedHeader } = await verifyJwt(token, { ...provider, mayBeBound: true }, keys)
        const caller = callerOf(payload, issuer as string, provider)
        const typ = protectedHeader.typ?.toLowerCase()
        return this.#remember(token, caller, open, typ)
      } catch (error) {
        // The issuer is unreachable; another provider of the same issuer may still accept the token.
        if (error instanceof PublicError) unavailable = error
        else failure = error
      }
    }
    throw unavailable ?? this.refusal(request, problemOf(failure), { scheme, cause: failure })
  }
}

/** The memory of a value beside the text of its strings and names: V8 needs 16 to 56 bytes. */
const VALUE_BYTES = 48

/** Estimates the bytes that a parsed JSON value takes in memory: many times its text if it has many small parts. */
function jsonMemory(value: unknown): number {
  let bytes = 0
  // The walk goes level by level: a recursive function could not walk every value that can be parsed.
  for (let level: readonly unknown[] = [value]; level.length > 0; ) {
    const below: unknown[] = []
    for (const part of level) {
      bytes += VALUE_BYTES + textLength(part)
      if (typeof part === 'object' && part !== null) for (const member of Object.values(part)) below.push(member)
    }
    level = below
  }
  return bytes
}

function textLength(part: unknown): number {
  if (typeof part === 'string') return part.length
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return 0
  return Object.keys(part).reduce((sum, { length }) => sum + length, 0)
}
