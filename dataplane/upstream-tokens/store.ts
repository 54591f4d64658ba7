import type { Holder } from '../storage/fair-cache.ts'

/** Where a user logs in at a provider, so that there are tokens of it. */
export interface LinkOffer {
  /** Names the link, and says nothing of it. */
  readonly id: string
  readonly url: string
  /** Name of the provider. */
  readonly provider: string
}

/** Makes such a link. Rejects with a PublicError where that can't be done at the moment. */
export type MakeLink = () => Promise<LinkOffer>

/** Whose tokens: one login of a user, at one upstream provider. */
export interface Place {
  /** The claim `LOGIN_CLAIM` of the gateway's own JWTs. */
  readonly login: string
  /** Name of the provider in the configuration: a DNS label. */
  readonly provider: string
}

/** What a provider has given a user at a login. */
export interface UpstreamTokenSet {
  /** Subject (`sub`) of the gateway's own JWTs for the user: whoever else names the login gets nothing. */
  readonly owner: string
  /** Subject of the user at the provider. */
  readonly subject: string
  readonly accessToken: string
  /** When the access token ends, in milliseconds since 1970; absent: the provider does not say. */
  readonly expiresAt?: number
  /** When the provider gave it, in milliseconds since 1970. */
  readonly obtainedAt?: number
  readonly refreshToken?: string
  readonly idToken?: string
  readonly scopes?: readonly string[]
}

/** A set as it is stored. */
export interface StoredTokenSet extends UpstreamTokenSet {
  /** Another one after each write; never the same again. */
  readonly version: string
}

/** A lock that was got; it ends by itself after its time. */
export interface Lock {
  /** Lets go of it, where it is still this one. */
  release(): Promise<void>
}

/**
 * Tokens of upstream providers, by login and provider. A store that is away rejects at once with the PublicError
 * `unavailable`.
 */
export interface UpstreamTokenStore {
  /** Undefined where there is none, it has ended, or no secret that is known here opens it. */
  get(place: Place): Promise<StoredTokenSet | undefined>
  /**
   * Writes a set: over whatever is there or, with `replaces`, over that version alone. Gives the new version; undefined
   * where another one is there, or none. Rejects with a RangeError where it is too large.
   */
  put(place: Place, set: UpstreamTokenSet, options: PutOptions): Promise<string | undefined>
  /** Forgets what one provider has given. */
  remove(place: Place): Promise<void>
  /** Forgets all providers of a login. */
  removeLogin(login: string): Promise<void>
  /** Takes the lock of a place for so long, for whoever refreshes its tokens; undefined where somebody has it. */
  lock(place: Place, milliseconds: number): Promise<Lock | undefined>
}

export interface PutOptions {
  readonly replaces?: string | undefined
  /** Who makes us keep it; absent: the set's owner or, where it has none, whoever holds the login. */
  readonly holder?: Holder | undefined
  /** How long the login is kept from now, in milliseconds; what was said for longer stays. */
  readonly ttlMs: number
}

/** Of a set as JSON, in bytes: three tokens, of which ID tokens with many groups are the largest. */
export const LARGEST_SET = 96 * 1024

/** The claim of the gateway's own JWTs that names the login they belong to. */
export const LOGIN_CLAIM = 'tsid'

const LONGEST_LOGIN = 128

/** The login that verified claims belong to; undefined where they name none. */
export function loginOf(claims: Readonly<Record<string, unknown>>): string | undefined {
  const login = claims[LOGIN_CLAIM]
  return typeof login === 'string' && login !== '' && login.length <= LONGEST_LOGIN ? login : undefined
}

/** The JSON text of a set. Throws a RangeError where it is too large. */
export function textOfSet({ owner, subject, accessToken, ...others }: UpstreamTokenSet): string {
  const { expiresAt, obtainedAt, refreshToken, idToken, scopes } = others
  const text = JSON.stringify({ owner, subject, accessToken, expiresAt, obtainedAt, refreshToken, idToken, scopes })
  if (Buffer.byteLength(text) > LARGEST_SET)
    throw new RangeError(`the tokens of a provider are larger than ${LARGEST_SET} bytes`)
  return text
}
