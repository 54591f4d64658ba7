import * as client from 'openid-client'
import { isObject } from '../../../../crds/settings/json.ts'
import { withoutCredentials, withoutUrlSecrets } from '../../../config/check/url.ts'
import { ProviderResponse, UnusableAnswer } from './provider-fetch.ts'
import { type RefreshAnswer, type RefreshedTokens, UpstreamDenied } from './upstream.ts'

/** The error that a provider reported. It holds no token, code or secret. */
interface ReportedError {
  readonly status?: number
  /** Code of the error (RFC 6749 sections 4.1.2.1 and 5.2), if the answer has one. */
  readonly error?: string
  readonly errorDescription?: string
  /** The claim or metadata member that does not match, with both values unless they are secret. */
  readonly claim?: string
  readonly expected?: string
  readonly found?: string
}

/** Codes of Node and undici for a failed connection. */
const NETWORK_CODE = /^(?:E[A-Z]+|UND_ERR\w*|ERR_\w+|[A-Z]+_(?:CERT|SIGNATURE|CHAIN)\w*|\w*_CERT\w*)$/
const TIMEOUT = 'timeout'

/** The reason why an operation at a provider failed, for the operator of the gateway. */
export class ProviderFault extends Error {
  override readonly name = 'ProviderFault'
  readonly step: Step
  /** The provider's code or, without one, a code of the gateway. */
  readonly code: string
  readonly reported: ReportedError
  /** The advice for the operator. */
  readonly next: string
  /** True if the provider answered. */
  readonly isAnswer: boolean

  constructor(step: Step, code: string, message: string, reported: ReportedError = {}) {
    super(message)
    this.step = step
    this.code = code
    this.reported = reported
    this.next = adviceFor(step, code)
    this.isAnswer = code !== TIMEOUT && !NETWORK_CODE.test(code)
  }
}

/** Returns the log fields of an error at a provider: each part of its answer in a field, or else the error. */
export function logFields(error: unknown): object {
  const fault = error instanceof ProviderFault ? error : error instanceof Error ? error.cause : undefined
  if (!(fault instanceof ProviderFault)) return { err: error }
  const { step, code, reported, next, message } = fault
  return { step, code, ...reported, reason: message, next }
}

/** The code of a refusal by the user or by a rule of the provider. The operator can't fix it. */
const DENIED = 'access_denied'

/** The statuses after which the same request may succeed a moment later. */
const PASSING: ReadonlySet<number> = new Set([408, 429])
/** The error codes with that meaning, in answers with status 200. */
const PASSING_ERRORS: ReadonlySet<string> = new Set([
  ...['server_error', 'temporarily_unavailable', 'internal_error', 'fatal_error', 'service_unavailable'],
  ...['slow_down', 'ratelimited', 'rate_limited', 'request_timeout'],
])

/** Tells whether a provider has refused a request for good: with a 4xx other than 408 and 429, or an error in a 2xx. */
export function isRefusal(error: unknown): boolean {
  const { status, error: code } = readReport(error)
  if (status === undefined) return false
  if (status >= 400) return status < 500 && !PASSING.has(status)
  return status < 300 && code !== undefined && !PASSING_ERRORS.has(code)
}

/** Returns the fault of a failed callback or exchange. A refusal by the user or provider becomes an UpstreamDenied. */
export function exchangeFault(error: unknown): ProviderFault | UpstreamDenied {
  const fault = toFault(error, 'token')
  const isDenial = error instanceof client.AuthorizationResponseError && error.error === DENIED
  return isDenial ? new UpstreamDenied('the provider has refused', { cause: fault }) : fault
}

/**
 * Converts an error for the log, the status and the page. It keeps the error and description of an answer, and the
 * claim of a token that does not match; it drops everything secret.
 */
export function toFault(error: unknown, asked: Step): ProviderFault {
  if (error instanceof ProviderFault) return error
  const { code, words } = findInnermost(error)
  const isCallback =
    error instanceof client.AuthorizationResponseError || words?.includes('response parameter') === true
  const step = isCallback ? 'authorization' : asked
  const reported = { ...readReport(error), ...claimIn(words), ...mismatchIn(error) }
  const fault = (own: string, message: string) => new ProviderFault(step, own, message, reported)
  if (error instanceof UnusableAnswer) return fault('unusable_answer', error.message)
  if (reported.error !== undefined) return fault(reported.error, `the provider says ${reported.error}`)
  if (error instanceof client.AuthorizationResponseError)
    return fault('invalid_response', 'the provider sent an error that is not an OAuth error code')
  const isStatus = code === 'OAUTH_RESPONSE_IS_NOT_CONFORM' || (reported.status ?? 0) >= 300
  if (reported.status !== undefined && isStatus)
    return fault('unexpected_status', `the provider answered HTTP ${reported.status}`)
  const isLibrary = code?.startsWith('OAUTH_') === true
  const own = isLibrary ? codeFor(code, words, reported.claim) : (code ?? 'invalid_response')
  const found = code === undefined || code === own ? '' : ` (${code})`
  return fault(own, `the provider’s answer can’t be used: ${words ?? own}${found}`)
}

/** Returns the fault of an answer with an unexpected status. */
export function statusFault(step: Step, answer: ProviderResponse): ProviderFault {
  const reported = reportIn(answer)
  const message = `the provider answered HTTP ${answer.answered}${reported.error === undefined ? '' : ` (${reported.error})`}`
  return new ProviderFault(step, reported.error ?? 'unexpected_status', message, reported)
}

/** Lists an error and its causes, the innermost last. */
function* chainOf(error: unknown): Generator<Error> {
  for (let depth = 0, at = error; depth < 5 && at instanceof Error; depth++, at = at.cause) yield at
}

const reportIn = (answer: ProviderResponse): ReportedError => ({
  status: answer.answered,
  ...parseReport(isObject(answer.document) ? answer.document : {}, answer.secrets),
})

/** Returns what the provider states in the answer that an error is about. */
export function readReport(error: unknown): ReportedError {
  if (error instanceof client.AuthorizationResponseError) {
    const secrets = error.cause.getAll('state')
    return parseReport({ error: error.error, error_description: error.error_description }, secrets)
  }
  for (const at of chainOf(error)) {
    const { response } = at as { response?: unknown }
    for (const one of [response, at.cause]) if (one instanceof ProviderResponse) return reportIn(one)
  }
  return {}
}

/** The form of an error code. A text with blanks or punctuation is not a code and may contain anything. */
const CODE = /^[A-Za-z0-9_.]{1,64}$/
const LONGEST_DESCRIPTION = 300
const SHORTEST_SECRET = 6

function parseReport(document: Readonly<Record<string, unknown>>, secrets: readonly string[]): ReportedError {
  const { error, error_description: description } = document
  const text = typeof description === 'string' ? toPlainLine(description, secrets) : ''
  return {
    ...(typeof error === 'string' && CODE.test(error) && { error }),
    ...(text !== '' && { errorDescription: text }),
  }
}

/** Converts a provider's text to one line, without credentials and without the secrets of the request. */
function toPlainLine(description: string, secrets: readonly string[]): string {
  let text = description.slice(0, 4 * LONGEST_DESCRIPTION)
  for (const secret of secrets) if (secret.length >= SHORTEST_SECRET) text = text.replaceAll(secret, '[redacted]')
  const line = withoutUrlSecrets(withoutCredentials(text)).replace(/[\p{Cc}\p{Cf}\p{Cs}\s]+/gu, ' ')
  return line.trim().slice(0, LONGEST_DESCRIPTION)
}

/** Claims whose values may be logged, because they name parties and times. */
const TOLD: ReadonlySet<string> = new Set(['iss', 'aud', 'azp', 'exp', 'iat', 'nbf', 'auth_time', 'issuer'])

/** Returns the claim of an ID token that is missing or has the wrong type. */
function claimIn(words: string | undefined): Pick<ReportedError, 'claim'> {
  const claim = /JWT "(\w+)" .*claim (?:missing|type)/.exec(words ?? '')?.[1]
  return claim === undefined ? {} : { claim }
}

/** Returns the claim of an ID token, or the metadata member, that has an unexpected value. */
function mismatchIn(error: unknown): Pick<ReportedError, 'claim' | 'expected' | 'found'> {
  for (const { cause } of chainOf(error)) {
    if (!isObject(cause)) continue
    const { claim = cause['attribute'], claims = cause['body'], expected = cause['now'] } = cause
    if (typeof claim === 'string') return { claim, ...(TOLD.has(claim) && pickValues(expected, claims, claim)) }
  }
  return {}
}

function pickValues(expected: unknown, members: unknown, claim: string): Pick<ReportedError, 'expected' | 'found'> {
  const [own, theirs] = [shown(expected), shown(isObject(members) ? members[claim] : undefined)]
  return { ...(own !== undefined && { expected: own }), ...(theirs !== undefined && { found: theirs }) }
}

function shown(value: unknown): string | undefined {
  const text = Array.isArray(value) ? value.join(' ') : value
  return typeof text === 'string' || typeof text === 'number' ? toPlainLine(String(text), []) : undefined
}

/** Returns the innermost code of an error, and the library's fixed message. */
function findInnermost(error: unknown): { readonly code?: string; readonly words?: string } {
  let code: string | undefined
  let words: string | undefined
  for (const at of chainOf(error)) {
    if (at.name === 'TimeoutError') code = 'OAUTH_TIMEOUT'
    const { code: own } = at as { code?: unknown }
    if (typeof own !== 'string' || !/^[\w-]{1,64}$/.test(own)) continue
    code = own
    // Messages of other errors may contain addresses.
    words = own.startsWith('OAUTH_') ? at.message.slice(0, 120) : undefined
  }
  return { ...(code !== undefined && { code }), ...(words !== undefined && { words }) }
}

/** Returns the gateway's code for a fault that the library finds in an answer. */
function codeFor(code: string, words: string | undefined, claim: string | undefined): string {
  if (claim !== undefined) return words?.endsWith('missing') === true ? `missing_${claim}` : `wrong_${claim}`
  for (const [member, own] of MEMBERS) if (words?.includes(member)) return own
  return CODES[code] ?? 'invalid_response'
}

const MEMBERS = [
  ['"id_token"', 'no_id_token'],
  ['"access_token"', 'no_access_token'],
  ['"token_type"', 'no_token_type'],
  ['`token_type`', 'unsupported_token_type'],
  ['"iss" (issuer) missing', 'no_iss'],
  ['"iss" (issuer) response parameter', 'wrong_iss'],
  ['"alg" header parameter', 'wrong_alg'],
  ['signature verification failed', 'bad_signature'],
  ['no applicable keys', 'unknown_key'],
] as const

const CODES: Readonly<Record<string, string>> = {
  OAUTH_RESPONSE_IS_NOT_JSON: 'not_json',
  OAUTH_PARSE_ERROR: 'not_json',
  OAUTH_RESPONSE_IS_NOT_CONFORM: 'unexpected_status',
  OAUTH_KEY_SELECTION_FAILED: 'unknown_key',
  OAUTH_TIMEOUT: TIMEOUT,
}

/** The steps at a provider: finding its metadata, registering, reading a callback, or calling an endpoint. */
type Step = 'metadata' | 'registration' | 'authorization' | 'token' | 'user_info' | 'refresh'

/** Returns the advice for an operator about a fault at a provider. */
const adviceFor = (step: Step, code: string): string =>
  (Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined) ?? BY_STEP[step]

const CLIENT = 'check clientId and clientSecretRef, and that the client may use the authorization code grant there'

const ISSUER = 'set issuerUrl to the issuer that the provider names, if that is the provider that you mean'

const BY_CODE: Readonly<Record<string, string>> = {
  invalid_client: CLIENT,
  unauthorized_client: CLIENT,
  invalid_scope: 'check `scopes` against what the client may ask for at the provider',
  redirect_uri_mismatch: 'register the redirect URI of this gateway for the client at the provider',
  invalid_request: 'check that the redirect URI is registered at the provider, and additionalAuthorizationParams',
  invalid_grant: 'log in once more; if it comes again, compare the redirect URI at the provider and the clocks',
  access_denied: 'ask at the provider whether the person may use the client; a rule there, or the person, has refused',
  server_error: 'look into the provider’s own log, and try again',
  temporarily_unavailable: 'try again later; the provider is overloaded or asks for fewer requests',
  no_id_token: 'have `openid` among `scopes`; a provider that gives no ID tokens is one of type oauth2',
  no_access_token: 'check the token endpoint; where tokens stand inside the answer, set tokenResponseMapping',
  unsupported_token_type: 'have the provider give bearer tokens',
  no_subject: 'have the provider send the claim that subjectClaim names, or name another one',
  not_json: 'check the address: something other than the provider’s endpoint answers there',
  wrong_aud: 'check clientId: the ID token is for another client',
  wrong_azp: 'check clientId: the ID token is for another client',
  wrong_exp: 'compare the clocks of the gateway and the provider',
  wrong_iat: 'compare the clocks of the gateway and the provider',
  wrong_nbf: 'compare the clocks of the gateway and the provider',
  wrong_iss: ISSUER,
  wrong_issuer: ISSUER,
  unknown_key: 'check that jwks_uri of the provider’s metadata has the key that it signs with',
  bad_signature: 'check that jwks_uri of the provider’s metadata has the key that it signs with',
}

const BY_STEP: Readonly<Record<Step, string>> = {
  metadata: 'check issuerUrl, and that the gateway reaches it (caBundleRef, allowPrivateIPs, network policies)',
  registration: 'check dcrConfig, and that the provider registers clients by themselves',
  authorization: 'look into the provider’s own log of the login',
  token: 'look into the provider’s own log of requests to its token endpoint',
  user_info: 'check the endpoint that says who users are, and the fields that are named for it',
  refresh: 'look into the provider’s own log of requests to its token endpoint',
}

/**
 * Returns the result of a refresh request. `rotated` returns the new refresh token of an otherwise unusable answer,
 * because the provider has already replaced the old one.
 */
export async function refreshed(
  request: () => Promise<RefreshedTokens & { readonly refreshToken?: string }>,
  rotated: () => string | undefined,
): Promise<RefreshAnswer> {
  try {
    const { refreshToken: next, ...tokens } = await request()
    return { ...(next !== undefined && { refreshToken: next }), tokens }
  } catch (error) {
    const fault = toFault(error, 'refresh')
    // Providers use different codes for it: `unauthorized_client` with 403, `invalid_token` with 401, their own with
    // 400, or any with 200.
    if (isRefusal(error)) throw new UpstreamDenied('the refresh token is no longer valid', { cause: fault })
    const next = rotated()
    if (next === undefined) throw fault
    return { refreshToken: next, problem: fault }
  }
}
