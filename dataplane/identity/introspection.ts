import type { Logger } from 'pino'
import { secretFile } from '../config/secret-file.ts'
import type { GuardedFetch } from '../net/guarded-fetch.ts'
import { PublicError } from '../server/errors.ts'
import { type Authenticated, isFor, isSubject } from './caller.ts'
import { discoverEndpoint } from './discovery.ts'
import { fetchFrom, type Issuer } from './issuer-keys.ts'

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
  /** The clock skew that is tolerated, in seconds. */
  readonly skewS: number
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
    this.#credentials = credentialsOf(client)
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
    throw new PublicError('unavailable', {
      message: 'The token can’t be checked now: its issuer does not answer.',
      headers: { 'Retry-After': '1' },
      cause: error,
    })
  }
}

function credentialsOf({ clientId, clientSecretFile }: IntrospectionClient): () => Record<string, string> {
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
  { issuerName, audience, audienceClaim = 'aud', skewS }: IntrospectionOptions,
): Authenticated | undefined {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return undefined
  const claims = answer as Record<string, unknown>
  const { active, iss, sub, exp, nbf, token_use: use } = claims
  const now = Date.now() / 1000
  const issuer = issuerName()
  if (active !== true || use === 'refresh_token') return undefined
  if (typeof exp !== 'number' || !Number.isFinite(exp) || exp + skewS <= now) return undefined
  if (!hasBegun(nbf, now + skewS)) return undefined
  if (issuer === undefined || ((iss ?? undefined) !== undefined && iss !== issuer)) return undefined
  if (!isFor(claims, audienceClaim, audience)) return undefined
  if (!isSubject(sub)) return undefined
  return { kind: 'authenticated', issuer, subject: sub, claims, expiresAt: exp }
}

/** Tells whether `nbf`, if present and not null, is before `latest` (seconds since 1970). */
const hasBegun = (nbf: unknown, latest: number): boolean =>
  nbf === undefined || nbf === null || (typeof nbf === 'number' && nbf <= latest)
