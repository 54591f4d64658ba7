import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { documentDefaults } from '../../../crds/settings/gateway/defaults.ts'
import { isObject, withoutNulls } from '../../../crds/settings/json.ts'
import type { CimdConfig } from '../../config/auth-server.ts'
import { PublicError } from '../../server/errors.ts'
import { networkHolder } from '../../server/network-of.ts'
import { FairCache } from '../../storage/fair-cache.ts'
import { fetchOfStranger, KEYS_MS, type StatedKeys, statedKeys } from './client-keys.ts'
import { NetworkLimit } from './network-limit.ts'
import {
  type ClientRecord,
  MOST_SCOPES,
  RegistrationRefused,
  type RegistrationRules,
  readGrantTypes,
  readRedirectUris,
  refuse,
  SHOWN,
} from './registration.ts'

const MOST_BYTES = 32 * 1024 * 1024
/** The upper bound of the configured number of cached documents. */
const MOST_KEPT = 65_536
const LARGEST_DOCUMENT = 10 * 1024
/** Bounds of the cache lifetime that a document may set. */
const SHORTEST_MS = 60_000
const LONGEST_MS = 24 * 60 * 60_000
/**
 * The time for which an expired document stays in use while its host is down, so that logged-in clients keep working.
 */
const STALE_MS = 60 * 60_000
/** The time for which an unusable document is not fetched again. It protects its host from floods. */
const REFUSED_MS = 60_000
const AWAY_MS = 10_000
const MOST_REFUSED = 1_000
const JSON_TYPE = /^application\/(?:[\w!#$&^.-]+\+)?json$/

interface Known {
  readonly record: ClientRecord
  /** The time (`performance.now()`) until which the document is not fetched again. */
  readonly freshUntil: number
}

interface ClientDocumentsOptions {
  readonly config: CimdConfig
  readonly rules: RegistrationRules
  /** True if the issuer is on loopback. Then clients may be, too. */
  readonly isLocal: boolean
  log(): Logger
}

/**
 * The clients with a metadata document (draft-ietf-oauth-client-id-metadata-document). Strangers choose what is fetched
 * here, so it is limited: public addresses only, 10 KiB in 5 s, one fetch at a time for an address, a rate limit for
 * each network, and a bounded cache.
 */
export class ClientDocuments {
  readonly #options: ClientDocumentsOptions
  /** A network that names many documents evicts its own before those of others. */
  readonly #known: FairCache<Known>
  /** The least size that a document counts as, so that the cache holds at most the configured number. */
  readonly #leastBytes: number
  readonly #refused = new LRUCache<string, 'invalid' | 'away'>({ max: MOST_REFUSED })
  readonly #loading = new Map<string, Promise<ClientRecord | undefined>>()
  readonly #limit = new NetworkLimit()
  readonly #usualMs: number

  constructor(options: ClientDocumentsOptions) {
    const { cacheMaxSize, cacheFallbackTtl } = { ...documentDefaults, ...options.config }
    this.#options = options
    this.#known = new FairCache({ most: MOST_BYTES, now: () => performance.now() })
    this.#leastBytes = Math.floor(MOST_BYTES / Math.min(cacheMaxSize, MOST_KEPT))
    this.#usualMs = parseDuration(cacheFallbackTtl)
  }

  /** Tells whether an id has the form of a document URL. */
  accepts(id: string): boolean {
    return isDocumentUrl(id, this.#options.isLocal)
  }

  /**
   * Returns the client of an accepted id; undefined if its document is unusable. `address`: the source address of the
   * request. Rejects with a PublicError `unavailable` if the document can't be fetched now.
   */
  async find(id: string, address: string | undefined): Promise<ClientRecord | undefined> {
    const known = this.#known.get(id)
    if (known !== undefined && known.freshUntil > performance.now()) return known.record
    const refused = this.#refused.get(id)
    if (refused === 'invalid') return undefined
    const loading = this.#loading.get(id)
    if (loading !== undefined) return loading
    if (refused === 'away' || !this.#limit.take(address)) return stale(known)
    const started = this.#load(id, known, address).finally(() => this.#loading.delete(id))
    this.#loading.set(id, started)
    return started
  }

  async #load(id: string, known: Known | undefined, address: string | undefined): Promise<ClientRecord | undefined> {
    try {
      const { text, ttlMs } = await this.#fetch(id)
      const record = readDocument(parse(text), id, this.#options.rules, this.#options.isLocal)
      // Keys inside a document expire as early as fetched keys, so that a withdrawn key is refused in time.
      const keptMs = record.jwks === undefined ? ttlMs : Math.min(ttlMs, KEYS_MS)
      const size = Math.max(id.length + text.length, this.#leastBytes)
      // The entry stays with the first network that named it. A later one does not take it over.
      const holder = known === undefined ? networkHolder(address) : undefined
      this.#known.set(
        id,
        { record, freshUntil: performance.now() + keptMs },
        { size, ttlMs: keptMs + STALE_MS, holder },
      )
      return record
    } catch (error) {
      const isInvalid = error instanceof RegistrationRefused
      this.#options.log().debug({ err: error, client: id }, 'the metadata document of a client is not accepted')
      this.#refused.set(id, isInvalid ? 'invalid' : 'away', { ttl: isInvalid ? REFUSED_MS : AWAY_MS })
      if (!isInvalid) return stale(known, error)
      this.#known.delete(id)
      return undefined
    }
  }

  /** Throws a RegistrationRefused if the response is unusable, and an Error if there is none. */
  async #fetch(id: string): Promise<{ readonly text: string; readonly ttlMs: number }> {
    const { status, headers, text } = await fetchOfStranger(id, LARGEST_DOCUMENT, this.#options.isLocal)
    if (status === 429 || status >= 500) throw new Error(`the host has answered ${status}`)
    if (status !== 200) throw refuse('the document is not there')
    const type = String(headers['content-type'] ?? '').split(';')[0]
    if (!JSON_TYPE.test(type?.trim().toLowerCase() ?? '')) throw refuse('the document is not of type JSON')
    return { text, ttlMs: this.#chooseTtl(headers['cache-control']) }
  }

  #chooseTtl(header: string | string[] | undefined): number {
    const directives = String(header ?? '').toLowerCase()
    if (/\bno-(?:store|cache)\b/.test(directives)) return SHORTEST_MS
    const seconds = /(?:^|[\s,])max-age="?(\d{1,10})/.exec(directives)?.[1]
    return seconds === undefined ? this.#usualMs : Math.min(LONGEST_MS, Math.max(SHORTEST_MS, Number(seconds) * 1000))
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw refuse('the document is not valid JSON')
  }
}

/** Returns the cached client. Throws a PublicError if there is none, or it is too old. */
function stale(known: Known | undefined, cause?: unknown): ClientRecord {
  if (known !== undefined && known.freshUntil + STALE_MS > performance.now()) return known.record
  throw new PublicError('unavailable', { headers: { 'Retry-After': '10' }, cause })
}

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
