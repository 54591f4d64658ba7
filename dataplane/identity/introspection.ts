import type { Logger } from 'pino'
import { isLoopback } from '../config/check/url.ts'
import { secretFile } from '../config/secret-file.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { PublicError } from '../server/errors.ts'
import type { Caller } from './caller.ts'
import { discoverEndpoint } from './discovery.ts'
import type { Issuer } from './issuer-keys.ts'

/** How opaque tokens of an issuer are checked. The file path is absolute. */
export interface IntrospectionClient {
  readonly clientId: string
  readonly clientSecretFile: string
  /** Absent: found by discovery. */
  readonly url?: string | undefined
}

export interface IntrospectionOptions {
  readonly issuer: Issuer
  readonly audience: string
  readonly client: IntrospectionClient
  /** Seconds by which clocks may differ. */
  readonly skewS: number
  readonly log: Logger
}

/** An answer is a handful of claims. */
const MAX_BYTES = 64 * 1024

/**
 * Asks an issuer about opaque tokens (RFC 7662), as a client with HTTP Basic authentication. Requests for one token at
 * a time share one question.
 */
export class Introspection {
  readonly #options: IntrospectionOptions
  readonly #fetch: GuardedFetch
  readonly #secret: () => string
  readonly #asked = new Map<string, Promise<Caller | undefined>>()
  #endpoint: string | undefined
  #isAway = false

  constructor(options: IntrospectionOptions) {
    const { issuer, client } = options
    this.#options = options
    this.#secret = secretFile(client.clientSecretFile)
    this.#fetch = createGuardedFetch({
      caBundleFile: issuer.caBundleFile,
      allowPrivateIP: issuer.allowPrivateIP,
      allowLoopback: isLoopback(new URL(issuer.issuer)),
      maxBytes: MAX_BYTES,
    })
  }

  close(): Promise<void> {
    return this.#fetch.close()
  }

  /**
   * Who holds this token; undefined where the issuer does not stand for it here and now. Throws a PublicError
   * (`unavailable`) where the issuer can't be asked.
   */
  ask(token: string): Promise<Caller | undefined> {
    const asked = this.#asked.get(token)
    if (asked !== undefined) return asked
    const answer = this.#ask(token).finally(() => this.#asked.delete(token))
    this.#asked.set(token, answer)
    return answer
  }

  async #ask(token: string): Promise<Caller | undefined> {
    const answer = await this.#post(token).catch((error: unknown) => this.#away(error))
    if (this.#isAway) this.#options.log.info({ issuer: this.#options.issuer.issuer }, 'the issuer answers again')
    this.#isAway = false
    return callerOf(answer, this.#options)
  }

  async #post(token: string): Promise<unknown> {
    const { clientId, url } = this.#options.client
    this.#endpoint ??= url ?? (await this.#discover())
    const answer = await this.#fetch(
      this.#endpoint,
      {
        authorization: basic(clientId, this.#secret()),
        'content-type': 'application/x-www-form-urlencoded',
      },
      new URLSearchParams({ token, token_type_hint: 'access_token' }).toString(),
    )
    if (answer.status !== 200) throw new Error(`${this.#endpoint} answered ${answer.status}`)
    return JSON.parse(answer.text)
  }

  #discover(): Promise<string> {
    const { issuer, insecureAllowHTTP: allowHTTP = false } = this.#options.issuer
    return discoverEndpoint('introspection_endpoint', issuer, this.#fetch, { headers: {}, allowHTTP })
  }

  #away(error: unknown): never {
    if (!this.#isAway)
      this.#options.log.warn(
        { issuer: this.#options.issuer.issuer, err: error },
        'the issuer can’t be asked of a token',
      )
    this.#isAway = true
    throw new PublicError('unavailable', {
      message: 'The token can’t be checked now: its issuer does not answer.',
      headers: { 'Retry-After': '1' },
      cause: error,
    })
  }
}

/** Name and secret are form-encoded before they are joined (RFC 6749 section 2.3.1). */
function basic(clientId: string, secret: string): string {
  const encoded = [clientId, secret].map((part) => new URLSearchParams([['', part]]).toString().slice(1)).join(':')
  return `Basic ${Buffer.from(encoded).toString('base64')}`
}

/** RFC 7662 leaves all but `active` to the issuer; here a token says until when, for whom and about whom, or is none. */
function callerOf(answer: unknown, { issuer, audience, skewS }: IntrospectionOptions): Caller | undefined {
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return undefined
  const claims = answer as Record<string, unknown>
  const { active, iss, sub, aud, exp, nbf, token_use: use } = claims
  const now = Date.now() / 1000
  if (active !== true || use === 'refresh_token') return undefined
  if (typeof exp !== 'number' || exp + skewS <= now) return undefined
  if (nbf !== undefined && !(typeof nbf === 'number' && nbf - skewS <= now)) return undefined
  if (iss !== undefined && iss !== issuer.issuer) return undefined
  if (aud !== audience && !(Array.isArray(aud) && aud.includes(audience))) return undefined
  if (typeof sub !== 'string' || sub === '') return undefined
  return { kind: 'authenticated', issuer: issuer.issuer, subject: sub, claims, expiresAt: exp }
}
