import { isObject, withoutNulls } from '../../../crds/settings/json.ts'
import {
  type ClientRecord,
  MOST_SCOPES,
  type RegistrationRules,
  readGrantTypes,
  readRedirectUris,
  refuse,
  SHOWN,
} from './registration.ts'
import { type StatedKeys, statedKeys } from './stated-keys.ts'

/** The longest client id: the URL appears in tokens and pages. */
const LONGEST_ID = 1024
/** Hosts whose documents may be fetched over plain http while the issuer is on loopback. */
const PLAIN = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?\//
/**
 * Tells whether a client id is the URL of a metadata document (draft-ietf-oauth-client-id-metadata-document section 3):
 * https, with a path, without credentials and fragment, and in normal form, so that no two ids mean one document.
 */
export function isDocumentUrl(id: string, allowsPlain: boolean): boolean {
  if (id.length > LONGEST_ID || !/^[!-~]+$/.test(id)) return false
  if (!id.startsWith('https://') && !(allowsPlain && PLAIN.test(id))) return false
  const url = URL.parse(id)
  // The parser changes dot segments, default ports and capitals of a host, so such an id is not in normal form.
  if (url === null || url.href !== id || id.includes('#')) return false
  return url.username === '' && url.password === '' && url.pathname !== '/'
}

/** Returns the document URL of a client; undefined for another kind of id. */
export const findDocumentUrl = (clientId: string): string | undefined =>
  clientId.includes('://') ? clientId : undefined

/**
 * Reads the metadata document of a client. A document serves every server, so unknown grants and scopes are ignored.
 * Such a client is public, or authenticates with its own key. `isLocal`: the issuer is on loopback, so keys may be,
 * too. Throws a RegistrationRefused.
 */
export function readDocument(metadata: unknown, id: string, rules: RegistrationRules, isLocal = false): ClientRecord {
  if (!isObject(metadata)) throw refuse('the document must be a JSON object')
  const document = withoutNulls(metadata)
  if (document['client_id'] !== id) throw refuse('client_id must be the address of the document')
  if (document['client_secret'] !== undefined || document['client_secret_expires_at'] !== undefined)
    throw refuse('the document must not contain a secret')
  const { response_types: types = ['code'], client_name: name } = document
  if (!Array.isArray(types) || !types.includes('code')) throw refuse('response_types must contain code')
  return {
    client_id: id,
    client_id_issued_at: Math.floor(Date.now() / 1000),
    // An unusable name is ignored: the page then shows the host of the document alone.
    ...(typeof name === 'string' && SHOWN.test(name) && { client_name: name }),
    redirect_uris: readWebRedirects(document['redirect_uris']),
    grant_types: readGrantTypes(document['grant_types']),
    response_types: ['code'],
    ...readAuthentication(document, isLocal),
    application_type: 'web',
    scope: chooseScope(document['scope'], rules),
  }
}

/**
 * Reads how a client authenticates. If the plural field is present, it lists every method (SEP-3149). A client that
 * states a key must use it (CIMD draft section 6.2), unless it also states that it needs none.
 */
function readAuthentication(
  document: Record<string, unknown>,
  isLocal: boolean,
): Pick<ClientRecord, 'token_endpoint_auth_method' | 'isKeyOptional' | keyof StatedKeys> {
  const { token_endpoint_auth_methods_supported: plural, token_endpoint_auth_method: singular = 'none' } = document
  const methods: readonly unknown[] = Array.isArray(plural) ? plural : [singular]
  const isPublic = methods.includes('none')
  if (!methods.includes('private_key_jwt')) {
    if (!isPublic) throw refuse('token_endpoint_auth_method must be none or private_key_jwt')
    return { token_endpoint_auth_method: 'none' }
  }
  const keys = statedKeys(document, isLocal)
  if (typeof keys === 'string') throw refuse(keys)
  return { token_endpoint_auth_method: 'private_key_jwt', ...(isPublic && { isKeyOptional: true }), ...keys }
}

/** Checks redirect URIs as a registration does, but without private schemes: an app on a device owns no web address. */
function readWebRedirects(uris: unknown): readonly string[] {
  const found = readRedirectUris(uris, true)
  if (!found.every((uri) => /^https?:/i.test(uri))) throw refuse('redirect_uris must be http or https')
  return found
}

/** Returns the requested scopes that are known, or all scopes if none is. */
function chooseScope(asked: unknown, { scopes, baselineScopes, toolScopes = [] }: RegistrationRules): string {
  const wanted = typeof asked === 'string' ? asked.split(' ', MOST_SCOPES) : []
  const known = wanted.filter((scope) => scopes.includes(scope))
  return [...new Set([...(known.length === 0 ? scopes : known), ...baselineScopes, ...toolScopes])].join(' ')
}
