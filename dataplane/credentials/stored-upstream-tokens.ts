import { decodeJwt } from 'jose'
import { PublicError } from '../server/errors.ts'
import {
  type InjectedHeader,
  type LinkOffer,
  type MakeLink,
  type Place,
  placeOfAssertion,
  placeOfUser,
  type StoredTokenSet,
  type UpstreamTokenStore,
} from '../upstream-tokens/index.ts'
import { MARGIN_MS } from './caller-credential.ts'
import { CredentialError } from './credential.ts'
import {
  noActor,
  noKey,
  noLogin,
  noPerson,
  noProviderToken,
  notLinked,
  type TokenHolder,
  type UpstreamToken,
  type UpstreamTokens,
} from './upstream-tokens.ts'

interface StoredUpstreamTokensOptions {
  /** The issuer of the gateway's own JWTs. Other tokens name no login here. */
  readonly issuer: string
  /**
   * Refreshes the access token and stores it. Undefined if the provider refuses; rejects if it is unavailable. Absent:
   * none.
   */
  refresh?(place: Place, before: StoredTokenSet): Promise<StoredTokenSet | undefined>
  /** Tells whether the tokens of a provider belong to users and not to their logins. Absent: to logins. */
  isPerUser?(provider: string): boolean
  /** Returns the link for a later login; undefined if every login visits the provider. Absent: no links. */
  linkOf?(place: Place, caller: TokenHolder): MakeLink | undefined
  /** Only logins of some users visit the providers after the first. */
  readonly isFiltered?: boolean
  readonly keys?: OwnKeys
}

/** The keys of users, by the subject of the gateway's own JWTs. */
interface OwnKeys {
  has(provider: string): boolean
  findTitle(provider: string): string
  /** Returns the header with the user's key; undefined without one, or 'refused' if a backend has refused it. */
  header(subject: string, provider: string, refused?: string): Promise<InjectedHeader | 'refused' | undefined>
  offer(subject: string, provider: string, isRefused: boolean): LinkOffer
}

const BEARER = 'Bearer '

const TOKEN = /^[\x21-\x7e]+$/

/** Tells whether somebody of this subject logs in here: the subjects of clients and of other issuers have a `#`. */
const isPerson = (subject: string): boolean => !subject.includes('#')

/** Returns the place of what is the caller's own, of whichever login; the error for a caller who can have nothing there. */
function ownPlace(issuer: string, caller: TokenHolder, provider: string): Place | CredentialError {
  if (caller.issuer !== issuer) return noProviderToken(provider, false)
  if (caller.login === undefined && caller.isActor) return noActor(provider)
  return isPerson(caller.subject) ? placeOfUser(caller, provider) : noPerson(provider)
}

/** Returns the function that gives the place of a caller's tokens, or the error for a caller who can have none. */
const createPlaceFinder =
  (issuer: string, isPerUser: (provider: string) => boolean) =>
  (caller: TokenHolder, provider: string): Place | CredentialError => {
    if (isPerUser(provider)) return ownPlace(issuer, caller, provider)
    const { login, subject } = caller
    if (caller.issuer !== issuer) return noProviderToken(provider, false)
    if (login !== undefined) return { login, provider }
    return isPerson(subject) ? noProviderToken(provider, false) : noLogin(provider)
  }

export function storedUpstreamTokens(
  store: Pick<UpstreamTokenStore, 'get'>,
  { issuer, refresh, isPerUser = () => false, linkOf, isFiltered = false, keys }: StoredUpstreamTokensOptions,
): UpstreamTokens {
  const placeFor = createPlaceFinder(issuer, isPerUser)

  function missing(caller: TokenHolder, provider: string): CredentialError {
    const place = placeFor(caller, provider)
    if (place instanceof CredentialError) return place
    const link = linkOf?.(place, caller)
    return link === undefined ? noProviderToken(provider, isFiltered) : notLinked(provider, link)
  }

  async function find(caller: TokenHolder, provider: string): Promise<[Place, StoredTokenSet] | undefined> {
    const place = placeFor(caller, provider)
    if (place instanceof CredentialError) return undefined
    const set = await store.get(place)
    return set === undefined || set.owner !== caller.subject ? undefined : [place, set]
  }

  async function stored(caller: TokenHolder, provider: string): Promise<[Place, StoredTokenSet]> {
    const found = await find(caller, provider).catch(away)
    if (found === undefined) throw missing(caller, provider)
    return found
  }

  /** Returns the selected part of the set, refreshed if it is about to expire or was refused. */
  async function usable(
    caller: TokenHolder,
    provider: string,
    pick: (set: StoredTokenSet) => Partial<UpstreamToken>,
    refused?: string,
  ) {
    const [place, set] = await stored(caller, provider)
    const pickToken = (one: StoredTokenSet, marginMs: number): UpstreamToken | undefined => {
      const { token, expiresAt } = pick(one)
      const lasts = (expiresAt ?? Number.POSITIVE_INFINITY) > Date.now() + marginMs
      return token !== undefined && token !== refused && lasts && TOKEN.test(token) ? { token, expiresAt } : undefined
    }
    const lasting = pickToken(set, computeMargin(set))
    if (lasting !== undefined) return lasting
    const next = await refresh?.(place, set).catch((error: unknown) => {
      // The token may still serve in its last minute.
      if (pickToken(set, 0) === undefined) throw notRefreshed(provider, error)
    })
    const found = pickToken(next ?? set, 0)
    if (found === undefined) throw missing(caller, provider)
    return found
  }

  const accessToken: UpstreamTokens['accessToken'] = (caller, provider, refused) =>
    usable(caller, provider, ({ accessToken: token, expiresAt }) => ({ token, expiresAt }), refused)

  return {
    accessToken,
    async header(caller, provider, refused) {
      if (keys?.has(provider) === true) return keyHeader(keys, issuer, { caller, provider, refused })
      const { token, expiresAt } = await accessToken(caller, provider, refused?.slice(BEARER.length))
      return { name: 'authorization', value: BEARER + token, expiresAt }
    },
    async idToken(caller, provider) {
      const { token } = await usable(caller, provider, ({ idToken }) => ({
        token: idToken,
        expiresAt: readExpiry(idToken),
      }))
      return token
    },
    identity: async (caller, provider) =>
      ((await find(caller, provider))?.[1] ?? (await ofAssertion(store, issuer, caller, provider)))?.idToken,
    stored: async (caller, provider, kind) => (await find(caller, provider).catch(away))?.[1][kind],
  }
}

/** Returns what is kept of the assertion that a caller's token was issued for. */
async function ofAssertion(
  store: Pick<UpstreamTokenStore, 'get'>,
  own: string,
  { issuer, subject, login, assertion }: TokenHolder,
  provider: string,
): Promise<StoredTokenSet | undefined> {
  if (login !== undefined || assertion === undefined || issuer !== own) return undefined
  const kept = await store.get(placeOfAssertion(assertion, provider))
  return kept?.owner === subject ? kept : undefined
}

interface AskedKey {
  readonly caller: TokenHolder
  readonly provider: string
  readonly refused: string | undefined
}

/** Returns the header with the caller's own key. A party that acts for a user without the user's login gets none. */
async function keyHeader(
  keys: OwnKeys,
  issuer: string,
  { caller, provider, refused }: AskedKey,
): Promise<InjectedHeader> {
  const { subject } = caller
  const place = ownPlace(issuer, caller, provider)
  if (place instanceof CredentialError) throw place
  const found = await keys.header(subject, provider, refused).catch(away)
  if (found !== undefined && found !== 'refused') return found
  const isRefused = found === 'refused'
  throw noKey(keys.findTitle(provider), isRefused, async () => keys.offer(subject, provider, isRefused))
}

/** Returns the margin before the expiry: at most a fifth of the lifetime. */
const computeMargin = ({ expiresAt, obtainedAt }: StoredTokenSet): number =>
  expiresAt === undefined || obtainedAt === undefined ? MARGIN_MS : Math.min(MARGIN_MS, (expiresAt - obtainedAt) / 5)

/** Returns the expiry of an ID token in milliseconds since 1970; 0 if it has none. */
function readExpiry(idToken: string | undefined): number {
  try {
    return (decodeJwt(idToken ?? '').exp ?? 0) * 1000
  } catch {
    return 0
  }
}

/** Returns the error for a provider, or a dependency of the refresh, that is unavailable. The next call tries again. */
const notRefreshed = (provider: string, cause: unknown): CredentialError =>
  cause instanceof CredentialError
    ? cause
    : new CredentialError(`the tokens of the provider ${JSON.stringify(provider)} were not refreshed`, {
        text: `the provider ${JSON.stringify(provider)} can’t be asked at the moment`,
        isPassing: true,
        cause,
      })

function away(cause: unknown): never {
  if (!(cause instanceof PublicError)) throw cause
  throw new CredentialError('the store of upstream tokens can’t be reached', {
    text: 'the store of tokens can’t be reached at the moment; try again',
    isPassing: true,
    cause,
  })
}
