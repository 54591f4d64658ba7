import { hash } from 'node:crypto'
import { isObject, withoutNulls } from '../../../crds/settings/json.ts'
import { type StatedKeys, statedKeys } from './client-keys.ts'
import { redirectProblem } from './redirect-uris.ts'

/** A client as stored, with the names of RFC 7591 section 2. */
export interface ClientRecord extends StatedKeys {
  readonly client_id: string
  /** Seconds since 1970. */
  readonly client_id_issued_at: number
  readonly client_name?: string
  readonly software_id?: string
  readonly redirect_uris: readonly string[]
  readonly grant_types: readonly string[]
  readonly response_types: readonly ['code']
  readonly token_endpoint_auth_method: AuthMethod
  readonly application_type: 'native' | 'web'
  /** Separated by blanks. */
  readonly scope: string
  /** SHA-256 of the secret, base64url. */
  readonly client_secret?: string
  readonly client_secret_expires_at?: 0
  /** True if the client may authenticate with its key, but need not. */
  readonly isKeyOptional?: true
}

export type AuthMethod = 'none' | 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt'

export interface RegistrationRules {
  readonly scopes: readonly string[]
  /** Scopes that every client gets. */
  readonly baselineScopes: readonly string[]
  /** Scopes that every client may ask for later, whatever it registered: calls of single tools need them. */
  readonly toolScopes?: readonly string[]
  readonly allowConfidential: boolean
  /** Redirect URIs that make a client confidential, whatever it asks for. */
  readonly forceConfidential: readonly string[]
  /** True if clients may register with a key; absent: false. */
  readonly allowKeys?: boolean
  /** True if the issuer is on loopback. Then keys of clients may be, too; absent: false. */
  readonly isLocal?: boolean
}

/**
 * The reason why a registration is refused (RFC 7591 section 3.2.2). The text names the problem and repeats no input.
 */
export class RegistrationRefused extends Error {
  override readonly name = 'RegistrationRefused'
  readonly code: 'invalid_redirect_uri' | 'invalid_client_metadata'

  constructor(code: RegistrationRefused['code'], message: string) {
    super(message)
    this.code = code
  }
}

export const refuse = (message: string) => new RegistrationRefused('invalid_client_metadata', message)

const GRANT_TYPES: ReadonlySet<unknown> = new Set(['authorization_code', 'refresh_token'])
const AUTH_METHODS: ReadonlySet<unknown> = new Set([
  'none',
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
])
const MOST_REDIRECT_URIS = 10
/** The most characters of all redirect URIs together. */
const LONGEST_URIS = 8 * 1024
const LARGEST_KEYS = 8 * 1024
export const MOST_SCOPES = 100
/** The characters of a displayed name. Look-alike characters and those that reverse the text could deceive people. */
export const SHOWN = /^[\x20-\x7e]{1,256}$/

/**
 * Reads a registration request. Unknown scopes, grant types and response types are ignored (RFC 7591 section 2). Throws
 * a RegistrationRefused.
 */
export function readRegistration(
  metadata: unknown,
  rules: RegistrationRules,
): Omit<ClientRecord, 'client_id' | 'client_id_issued_at' | 'client_secret' | 'client_secret_expires_at'> {
  if (!isObject(metadata)) throw refuse('the body must be a JSON object')
  const document = withoutNulls(metadata)
  const method = chooseAuthMethod(document, rules)
  const isByKey = method === 'private_key_jwt'
  // A client with a key may be a program on a user's device. Each installation makes its own key, so the shipped
  // program contains none.
  const redirectUris = readRedirectUris(document['redirect_uris'], method === 'none' || isByKey)
  const keys = isByKey ? readKeys(document, rules) : {}
  const name = shown(document, 'client_name')
  const software = shown(document, 'software_id')
  const responseTypes = document['response_types'] ?? ['code']
  if (!Array.isArray(responseTypes) || !responseTypes.includes('code')) throw refuse('response_types must contain code')
  return {
    ...(name !== undefined && { client_name: name }),
    ...(software !== undefined && { software_id: software }),
    redirect_uris: redirectUris,
    grant_types: readGrantTypes(document['grant_types']),
    response_types: ['code'],
    token_endpoint_auth_method: method,
    ...keys,
    application_type: chooseApplicationType(document['application_type'], redirectUris),
    scope: chooseScope(document['scope'], rules),
  }
}

function chooseAuthMethod(document: Record<string, unknown>, rules: RegistrationRules): AuthMethod {
  const { token_endpoint_auth_method: asked = 'none', redirect_uris: uris } = document
  if (!AUTH_METHODS.has(asked)) throw refuse('this token_endpoint_auth_method is not supported')
  const isForced = Array.isArray(uris) && uris.some((uri) => rules.forceConfidential.includes(uri as string))
  const method = isForced && asked === 'none' ? 'client_secret_post' : (asked as AuthMethod)
  const isAllowed =
    method === 'none' || (method === 'private_key_jwt' ? rules.allowKeys === true : rules.allowConfidential)
  if (!isAllowed) throw refuse(`token_endpoint_auth_method must be ${allowedMethods(rules)}`)
  return method
}

const allowedMethods = ({ allowConfidential, allowKeys }: RegistrationRules): string =>
  [
    'none',
    ...(allowConfidential ? ['client_secret_basic', 'client_secret_post'] : []),
    ...(allowKeys ? ['private_key_jwt'] : []),
  ].join(' or ')

/** Reads the keys of a client, which are stored with it. Throws a RegistrationRefused. */
function readKeys(document: Record<string, unknown>, { isLocal = false }: RegistrationRules): StatedKeys {
  const keys = statedKeys(document, isLocal)
  if (typeof keys === 'string') throw refuse(keys)
  if (Buffer.byteLength(JSON.stringify(keys)) > LARGEST_KEYS) throw refuse(`jwks has more than ${LARGEST_KEYS} bytes`)
  return keys
}

/** Checks the redirect URIs of a client. Throws a RegistrationRefused. */
export function readRedirectUris(uris: unknown, isPublic: boolean): readonly string[] {
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > MOST_REDIRECT_URIS)
    throw new RegistrationRefused('invalid_redirect_uri', `redirect_uris must be 1 to ${MOST_REDIRECT_URIS} URIs`)
  for (const uri of uris) {
    const problem = redirectProblem(uri, isPublic)
    if (problem !== undefined) throw new RegistrationRefused('invalid_redirect_uri', `a redirect URI ${problem}`)
  }
  const found = [...new Set(uris as string[])]
  if (found.join('').length > LONGEST_URIS)
    throw new RegistrationRefused('invalid_redirect_uri', `redirect_uris have more than ${LONGEST_URIS} characters`)
  return found
}

function shown(document: Record<string, unknown>, field: 'client_name' | 'software_id'): string | undefined {
  const value = document[field]
  if (value === undefined || value === '') return undefined
  if (typeof value !== 'string' || !SHOWN.test(value))
    throw refuse(`${field} must be at most 256 printable ASCII characters`)
  return value
}

/** Returns the supported grant types of a request. Throws a RegistrationRefused if codes are not among them. */
export function readGrantTypes(types: unknown): readonly string[] {
  if (types === undefined) return ['authorization_code', 'refresh_token']
  const known = Array.isArray(types) ? types.filter((type) => GRANT_TYPES.has(type)) : []
  if (!known.includes('authorization_code')) throw refuse('grant_types must contain authorization_code')
  return [...new Set(known)]
}

function chooseApplicationType(asked: unknown, redirectUris: readonly string[]): 'native' | 'web' {
  if (asked !== undefined && asked !== 'native' && asked !== 'web')
    throw refuse('application_type must be native or web')
  // The library allows private schemes to native clients only. Its other rules for either kind are not stricter than
  // ours.
  const hasOwnScheme = redirectUris.some((uri) => !/^https?:/i.test(uri))
  if (!hasOwnScheme) return 'web'
  if (redirectUris.some((uri) => /^https:\/\/(localhost|127\.0\.0\.1|\[::1\])(?=[:/?]|$)/i.test(uri)))
    throw new RegistrationRefused(
      'invalid_redirect_uri',
      'a redirect URI with https on loopback can’t be combined with one with a private scheme',
    )
  return 'native'
}

/** Returns the requested scopes that are known, or all scopes if none is. */
function chooseScope(asked: unknown, { scopes, baselineScopes }: RegistrationRules): string {
  const wanted = asked === undefined ? [] : Array.isArray(asked) ? asked : splitScope(asked)
  if (wanted.some((scope) => typeof scope !== 'string')) throw refuse('scope must be a list of strings')
  const known = wanted.slice(0, MOST_SCOPES).filter((scope) => scopes.includes(scope))
  return [...new Set([...(known.length === 0 ? scopes : known), ...baselineScopes])].join(' ')
}

function splitScope(text: unknown): readonly string[] {
  if (typeof text !== 'string') throw refuse('scope must be a string')
  return text.split(' ').filter((scope) => scope !== '')
}

/** Returns the stored digest of a secret. The secret has 256 random bits, so a plain hash is as safe as a slow one. */
export const secretDigest = (secret: string): string => hash('sha256', secret, 'base64url')
