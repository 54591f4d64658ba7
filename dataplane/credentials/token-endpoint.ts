import { isObject } from '../../crds/settings/json.ts'
import { isLoopback } from '../config/check/url.ts'
import { type ReadSecretFile, secretFile } from '../config/secret-file.ts'
import { parseDocument } from '../identity/discovery.ts'
import { basicAuthorization } from '../identity/introspection.ts'
import { createGuardedFetch, type GuardedFetch } from '../net/guarded-fetch.ts'
import { type Credential, CredentialError } from './credential.ts'

interface TokenEndpointSettings {
  readonly tokenUrl: string
  readonly clientId?: string | undefined
  readonly clientSecretFile?: string | undefined
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
  /** The name of the endpoint in the log and in errors; default `its token endpoint`. */
  readonly name?: string | undefined
}

export interface IssuedToken {
  readonly token: string
  readonly issuedTokenType: string | undefined
  readonly tokenType: string
  readonly expiresAt: number | undefined
}

/** The parameters of a request. Those that are undefined are left out. */
type Form = Readonly<Record<string, string | undefined>>

const MAX_BYTES = 64 * 1024
const LONGEST_TOKEN = 32 * 1024
const TIMEOUT_MS = 10_000
const CONNECTIONS = 32
/** The characters valid in a header after `Bearer ` (RFC 6750 section 2.1 is narrower than tokens in use). */
const TOKEN = /^[\x21-\x7e]+$/
/** Error codes of RFC 6749, 8693 and 8707, which are safe to repeat in a log. */
const ERRORS: ReadonlySet<unknown> = new Set([
  ...['invalid_request', 'invalid_client', 'invalid_grant', 'invalid_scope', 'invalid_target'],
  ...['unauthorized_client', 'unsupported_grant_type', 'server_error', 'temporarily_unavailable'],
])

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

/** One token endpoint (RFC 6749 section 3.2), with HTTP Basic authentication if there is a client secret. */
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

  close(): Promise<void> {
    return this.#fetch.close()
  }

  /** Requests a token. Rejects with a CredentialError that repeats nothing from the request or the response. */
  async request(form: Form): Promise<IssuedToken> {
    const { status, text } = await this.#post(form)
    const parsed = parseDocument(text)
    const answer = isObject(parsed) ? parsed : undefined
    const isSuccess = status >= 200 && status < 300
    // Some servers answer with an error at 200.
    const hasError = typeof answer?.['error'] === 'string' && answer['error'] !== ''
    if (isSuccess && answer !== undefined && !hasError) return this.#issuedToken(answer)
    const isPassing = status < 400 || status >= 500 || status === 429
    if (isPassing && !(isSuccess && hasError)) throw this.unusable(`answered HTTP ${status}`)
    const code = ERRORS.has(answer?.['error']) ? ` (${String(answer?.['error'])})` : ''
    throw new CredentialError(`${this.name} refused the request with HTTP ${status}${code}`, {
      text: `${this.name} refused the exchange`,
      isPassing: false,
    })
  }

  /** Returns the function that obtains the gateway's own credential; undefined without a client secret. */
  ownCredential(headerName: string, form: Form): (() => Promise<Credential>) | undefined {
    if (this.#clientId === undefined || this.#readSecret === undefined) return undefined
    const ofClient = { grant_type: 'client_credentials', ...form }
    return async () => bearerCredential(headerName, await this.request(ofClient), this)
  }

  #issuedToken(answer: Record<string, unknown>): IssuedToken {
    const { access_token: token, token_type: tokenType, expires_in: expiresIn } = answer
    const issued = answer['issued_token_type'] ?? undefined
    if (typeof token !== 'string' || token.length > LONGEST_TOKEN || !TOKEN.test(token))
      throw this.unusable('gave no access_token that a header can hold')
    if (typeof tokenType !== 'string') throw this.unusable('gave no token_type')
    if (issued !== undefined && typeof issued !== 'string')
      throw this.unusable('gave an issued_token_type that is not a string')
    const lifetimeS = expiresIn === undefined ? undefined : readSeconds(expiresIn)
    if (Number.isNaN(lifetimeS)) throw this.unusable('gave an expires_in that is not a number of seconds')
    return {
      token,
      tokenType,
      issuedTokenType: issued,
      expiresAt: lifetimeS === undefined ? undefined : Date.now() + lifetimeS * 1000,
    }
  }

  /** Returns the error for an endpoint that is unavailable or gives an invalid response. */
  unusable(what: string, cause?: unknown): CredentialError {
    return new CredentialError(`${this.name} ${what}`, {
      text: `${this.name} does not answer as specified`,
      isPassing: true,
      cause,
    })
  }

  async #post(form: Form) {
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
 * Reads a lifetime in seconds; NaN if invalid. Older servers write a text ("3600"), accepted only in plain digits (RFC
 * 6749 section 5.1).
 */
function readSeconds(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds : Number.NaN
}

/** Returns a header with a bearer token. Throws for a token of another kind, such as one bound to a key. */
export function bearerCredential(
  headerName: string,
  { token, tokenType, expiresAt }: IssuedToken,
  { name }: Pick<TokenEndpoint, 'name'>,
): Credential {
  if (tokenType.toLowerCase() === 'bearer') return { headers: [headerName, `Bearer ${token}`], expiresAt }
  throw new CredentialError(`${name} gave a token that is not a bearer token`, {
    text: `${name} does not give bearer tokens`,
    isPassing: false,
  })
}
