import { isObject } from '../../crds/settings/json.ts'
import { isLoopback } from '../config/check/url.ts'
import { type ReadSecretFile, secretFile } from '../config/secret-file.ts'
import { basicAuthorization } from '../identity/introspection.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { type Credential, CredentialError } from './credential.ts'

/** Where tokens are obtained, and as which client. File paths are absolute. */
interface TokenEndpointSettings {
  readonly tokenUrl: string
  readonly clientId?: string | undefined
  readonly clientSecretFile?: string | undefined
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  /** What the log and callers are told of it by; default `its token endpoint`. */
  readonly name?: string | undefined
}

/** A token as its endpoint gave it. */
export interface IssuedToken {
  readonly token: string
  /** Undefined where the answer has none. */
  readonly issuedTokenType: string | undefined
  readonly tokenType: string
  /** In milliseconds since 1970; undefined where the answer does not say. */
  readonly expiresAt: number | undefined
}

/** An answer is one token and a few words about it. */
const MAX_BYTES = 64 * 1024
const LONGEST_TOKEN = 32 * 1024
const TIMEOUT_MS = 10_000
const CONNECTIONS = 32
/** What can stand in a header after `Bearer ` (RFC 6750 section 2.1 is narrower; opaque tokens in use are not). */
const TOKEN = /^[\x21-\x7e]+$/
/** Error codes of RFC 6749, 8693 and 8707: words that are ours to repeat in a log. */
const ERRORS: ReadonlySet<unknown> = new Set([
  ...['invalid_request', 'invalid_client', 'invalid_grant', 'invalid_scope', 'invalid_target'],
  ...['unauthorized_client', 'unsupported_grant_type', 'server_error', 'temporarily_unavailable'],
])

/** A fetch from a service that gives tokens. */
export const tokenFetch = (
  url: string,
  reach: Pick<TokenEndpointSettings, 'caBundleFile' | 'allowPrivateIP'> = {},
): GuardedFetch =>
  createGuardedFetch({
    ...reach,
    allowLoopback: isLoopback(new URL(url)),
    maxBytes: MAX_BYTES,
    timeoutMs: TIMEOUT_MS,
    connections: CONNECTIONS,
  })

/** One token endpoint (RFC 6749 section 3.2), with HTTP Basic authentication where there is a client secret. */
export class TokenEndpoint {
  readonly name: string
  readonly #url: string
  readonly #clientId: string | undefined
  readonly #readSecret: ReadSecretFile | undefined
  readonly #fetch: GuardedFetch

  constructor(settings: TokenEndpointSettings) {
    const { tokenUrl, clientId, clientSecretFile, caBundleFile, allowPrivateIP, name = 'its token endpoint' } = settings
    this.name = name
    this.#url = tokenUrl
    this.#clientId = clientId
    this.#readSecret = clientSecretFile === undefined ? undefined : secretFile(clientSecretFile)
    this.#fetch = tokenFetch(tokenUrl, { caBundleFile, allowPrivateIP })
  }

  /** Whether the gateway can authenticate itself there. */
  get hasClient(): boolean {
    return this.#clientId !== undefined && this.#readSecret !== undefined
  }

  close(): Promise<void> {
    return this.#fetch.close()
  }

  /** Asks for a token. Rejects with a CredentialError that repeats nothing of what was sent or answered. */
  async request(form: Readonly<Record<string, string | undefined>>): Promise<IssuedToken> {
    const { status, text } = await this.#post(form)
    const answer = parse(text)
    if (status === 200 && answer !== undefined) return this.#issuedToken(answer)
    if (status < 400 || status >= 500 || status === 429) throw this.unusable(`answered HTTP ${status}`)
    const code = ERRORS.has(answer?.['error']) ? ` (${String(answer?.['error'])})` : ''
    throw new CredentialError(`${this.name} refused the request with HTTP ${status}${code}`, {
      text: `${this.name} refused the exchange`,
      isPassing: false,
    })
  }

  #issuedToken(answer: Record<string, unknown>): IssuedToken {
    const { access_token: token, token_type: tokenType, issued_token_type: issued, expires_in: expiresIn } = answer
    if (typeof token !== 'string' || token.length > LONGEST_TOKEN || !TOKEN.test(token))
      throw this.unusable('gave no access_token that can stand in a header')
    if (typeof tokenType !== 'string') throw this.unusable('gave no token_type')
    if (issued !== undefined && typeof issued !== 'string')
      throw this.unusable('gave an issued_token_type that is no text')
    const lifetimeS = expiresIn === undefined ? undefined : secondsOf(expiresIn)
    if (Number.isNaN(lifetimeS)) throw this.unusable('gave an expires_in that is no number of seconds')
    return {
      token,
      tokenType,
      issuedTokenType: issued,
      expiresAt: lifetimeS === undefined ? undefined : Date.now() + lifetimeS * 1000,
    }
  }

  /** The endpoint can't be used: it is away, or its answer is none. */
  unusable(what: string, cause?: unknown): CredentialError {
    return new CredentialError(`${this.name} ${what}`, {
      text: `${this.name} does not answer as it should`,
      isPassing: true,
      cause,
    })
  }

  async #post(form: Readonly<Record<string, string | undefined>>) {
    const body = new URLSearchParams()
    for (const [name, value] of Object.entries(form)) if (value !== undefined) body.append(name, value)
    if (this.#clientId !== undefined && this.#readSecret === undefined) body.append('client_id', this.#clientId)
    try {
      const headers = { ...this.#authorization(), 'content-type': 'application/x-www-form-urlencoded' }
      return await this.#fetch(this.#url, headers, body.toString())
    } catch (cause) {
      const { code, name, message } = cause as NodeJS.ErrnoException
      throw this.unusable(`can’t be asked: ${code ?? name}: ${message}`, cause)
    }
  }

  #authorization(): Record<string, string> {
    if (this.#clientId === undefined || this.#readSecret === undefined) return {}
    return { authorization: basicAuthorization(this.#clientId, this.#readSecret()) }
  }
}

/**
 * A lifetime in seconds; NaN where it is none. RFC 6749 section 5.1 has a JSON number; older servers write it as text
 * ("3600"), which is taken in plain digits alone: no sign, fraction, exponent or blank.
 */
function secondsOf(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds : Number.NaN
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** A header with a bearer token. Throws where the token is of another kind: one that is bound to a key can't be sent so. */
export function bearerCredential(
  headerName: string,
  { token, tokenType, expiresAt }: IssuedToken,
  { name }: Pick<TokenEndpoint, 'name'>,
): Credential {
  if (tokenType.toLowerCase() === 'bearer') return { headers: [headerName, `Bearer ${token}`], expiresAt }
  throw new CredentialError(`${name} gave a token that is no bearer token`, {
    text: `${name} gives no bearer tokens`,
    isPassing: false,
  })
}
