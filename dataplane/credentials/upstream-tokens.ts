import { hash } from 'node:crypto'
import { statedScopes } from '../identity/scopes.ts'
import {
  ASSERTION_CLAIM,
  type InjectedHeader,
  loginOf,
  type MakeLink,
  PROVIDER_CLAIM,
} from '../upstream-tokens/index.ts'
import { CredentialError, type CredentialSource, type Strategy, type Subject } from './credential.ts'

/** The authenticated caller whose tokens are looked up. */
export interface TokenHolder {
  readonly issuer: string
  readonly subject: string
  readonly login?: string | undefined
  /** The token is of a party that acts for the subject (RFC 8693 section 4.1). */
  readonly isActor: boolean
  /** The provider at which the subject logs in, if a token without a login states it. */
  readonly loginProvider?: string | undefined
  /** The name of what is kept of the assertion that the token was issued for, if anything is. */
  readonly assertion?: string | undefined
  readonly name?: string | undefined
  readonly email?: string | undefined
}

/** Returns the caller of a verified token. */
export function holderOf({
  issuer,
  subject,
  login,
  claims,
}: Pick<Subject, 'issuer' | 'subject' | 'login' | 'claims'>): TokenHolder {
  const textAt = (name: string) => (typeof claims[name] === 'string' ? claims[name] : undefined)
  const [loginProvider, assertion, name, email] = [PROVIDER_CLAIM, ASSERTION_CLAIM, 'name', 'email'].map(textAt)
  return { issuer, subject, login, isActor: claims['act'] !== undefined, loginProvider, assertion, name, email }
}

/** Tells apart the tokens of a user that belong to no login: those of parties that act for them, and the others. */
export const actorVariant = ({ claims }: Pick<Subject, 'claims'>): string =>
  claims['act'] !== undefined && loginOf(claims) === undefined ? 'actor' : ''

export interface UpstreamToken {
  readonly token: string
  /** The expiry in milliseconds since 1970; undefined if the provider does not say. */
  readonly expiresAt: number | undefined
}

/** Tokens of upstream providers, by login and provider. The authorization server stores and refreshes them. */
export interface UpstreamTokens {
  /** Returns the access token, but not `refused`, which a server has rejected. Rejects with a CredentialError. */
  accessToken(caller: TokenHolder, provider: string, refused?: string): Promise<UpstreamToken>
  /**
   * Returns the header for backends: a bearer token, or the caller's own key, but not `refused`. Rejects like
   * `accessToken`.
   */
  header(caller: TokenHolder, provider: string, refused?: string): Promise<InjectedHeader>
  idToken(caller: TokenHolder, provider: string): Promise<string>
  /**
   * Returns the ID token of the caller's login, even if it has expired: it identifies the user. For a token that was
   * issued for an assertion, its claims as JSON. Rejects with a PublicError `unavailable` if the store is down.
   */
  identity(caller: TokenHolder, provider: string): Promise<string | undefined>
  /**
   * Returns the stored access or ID token, usable or not: a credential from another token must not be used. Rejects
   * with a CredentialError if the store is down.
   */
  stored(caller: TokenHolder, provider: string, kind: StoredKind): Promise<string | undefined>
}

type StoredKind = 'accessToken' | 'idToken'

export const noUpstreamToken = (provider: string): CredentialError =>
  new CredentialError(`the caller has no token of the provider ${JSON.stringify(provider)}`, {
    text: `you have to log in at the provider ${JSON.stringify(provider)} again`,
    isPassing: false,
  })

/** Returns the error where logins visit this provider only of some users. */
const notVisited = (provider: string): CredentialError =>
  new CredentialError(`the caller’s login has not visited the provider ${JSON.stringify(provider)}`, {
    text: `your login does not include the provider ${JSON.stringify(provider)}: ask the operators of this gateway to add you to its users`,
    isPassing: false,
  })

/** Returns the error for a caller whose token belongs to no login. */
export const noLogin = (provider: string): CredentialError =>
  new CredentialError(
    `the caller has no login, and tokens of the provider ${JSON.stringify(provider)} belong to logins`,
    {
      text: `your token comes from no login, and tokens of the provider ${JSON.stringify(provider)} belong to logins: log in, or ask the operators of this gateway for \`tokensPer: user\``,
      isPassing: false,
    },
  )

export const noPerson = (provider: string): CredentialError =>
  new CredentialError(`the caller is no person, and has no tokens of the provider ${JSON.stringify(provider)}`, {
    text: `only people who log in here have tokens of the provider ${JSON.stringify(provider)}, and your token is not from such a login`,
    isPassing: false,
  })

export const noActor = (provider: string): CredentialError =>
  new CredentialError(`an actor without a login has no tokens of the provider ${JSON.stringify(provider)}`, {
    text: `a program that acts for a user without the user’s login does not get the user’s tokens of the provider ${JSON.stringify(provider)}`,
    isPassing: false,
  })

/** Returns the error for a caller without a token of a provider. `isChosen`: only logins of some users visit it. */
export const noProviderToken = (provider: string, isChosen: boolean): CredentialError =>
  isChosen ? notVisited(provider) : noUpstreamToken(provider)

/** Returns the same error with a link for the user to log in now. */
export const notLinked = (provider: string, link: MakeLink): CredentialError =>
  new CredentialError(`the caller has not logged in at the provider ${JSON.stringify(provider)}`, {
    text: `you have to log in at the provider ${JSON.stringify(provider)} first`,
    isPassing: false,
    link,
  })

/** Returns the error for a caller who has entered no key, or one that the server has refused. */
export const noKey = (title: string, isRefused: boolean, link: MakeLink): CredentialError =>
  new CredentialError(`the caller has no usable key for ${JSON.stringify(title)}`, {
    text: isRefused
      ? `the server has refused your key for ${title}; enter another one`
      : `you have to enter your key for ${title} first`,
    isPassing: false,
    link,
  })

/** The provider without an authorization server: nobody has logged in. */
export const noUpstreamTokens: UpstreamTokens = {
  accessToken: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
  header: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
  idToken: (_caller, provider) => Promise.reject(noUpstreamToken(provider)),
  identity: async () => undefined,
  stored: async () => undefined,
}

export interface StrategyParts {
  inFolder(file: string | undefined): string | undefined
  readonly upstreamTokens: UpstreamTokens
}

/** Returns the dependencies of a credential on the token of the call or, with a provider, of the login there. */
export function dependingOn(
  upstreamTokens: UpstreamTokens,
  provider: string | undefined,
  kind: StoredKind,
): Required<Pick<Strategy, 'isOfLogin' | 'variant' | 'digest'>> & Pick<Strategy, 'source'> {
  if (provider === undefined)
    return {
      isOfLogin: false,
      variant: ({ claims }) => readAuthority(claims),
      digest: ({ claims }) => claimsDigest(claims),
    }
  const source: CredentialSource = {
    async digest(subject) {
      const token = await upstreamTokens.stored(holderOf(subject), provider, kind)
      return token === undefined ? undefined : hash('sha256', token, 'base64url')
    },
    refresh: (subject) => upstreamTokens[kind](holderOf(subject), provider),
  }
  return { isOfLogin: true, source, variant: actorVariant, digest: () => '' }
}

/**
 * Claims that state the authority of a token and its actor: RFC 8693 (section 4), RFC 9068 (section 2.2), RFC 9396, RFC
 * 9470, and the client's claim at Okta (`cid`) and Entra ID (`appid`).
 */
const CLAIMS = ['act', 'may_act', 'azp', 'client_id', 'cid', 'appid', 'acr', 'authorization_details']

/**
 * Returns the authority of a token as one text, without claims that change with each token: tokens of one user with
 * different authority are kept apart like users. Empty if there is none.
 */
export function readAuthority(claims: Readonly<Record<string, unknown>>): string {
  const scopes = [...(statedScopes(claims) ?? [])].sort()
  const others = CLAIMS.flatMap((name) => (Object.hasOwn(claims, name) ? [[name, claims[name]]] : []))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return JSON.stringify([scopes, others])
  } catch {
    // The claims are nested deeper than the stack allows. No honest issuer signs this.
    return 'nested too deep'
  }
}

/**
 * Claims about the token itself: RFC 7519 (section 4.1), OpenID Connect Core 1.0 (sections 2, 3.1.3.6, 3.3.2.11 and
 * 5.1), Entra ID (`uti`, `aio`, `rh`), Cognito (`event_id`), our own exchanges (`tsrc`). `scope` and `scp` are read together.
 */
const OF_THE_TOKEN: ReadonlySet<string> = new Set([
  ...['exp', 'nbf', 'iat', 'jti', 'auth_time', 'updated_at', 'nonce', 'at_hash', 'c_hash', 's_hash'],
  ...['uti', 'aio', 'rh', 'event_id', 'tsrc', 'scope', 'scp'],
])

/**
 * Returns a digest of all claims that a token service may read, without those that change with each token: a credential
 * must not serve a token of the same user with other claims. Order does not matter. Empty if there are none.
 */
function claimsDigest(claims: Readonly<Record<string, unknown>>): string {
  const scopes = [...(statedScopes(claims) ?? [])].filter((one) => one !== '').sort()
  const others = Object.entries(claims).filter(([name]) => !OF_THE_TOKEN.has(name))
  if (scopes.length === 0 && others.length === 0) return ''
  try {
    return hash('sha256', JSON.stringify([scopes, Object.fromEntries(others)], inOrder), 'base64url')
  } catch {
    // The claims are nested deeper than the stack allows. No honest issuer signs this.
    return 'nested too deep'
  }
}

/** Replaces values for `JSON.stringify`: sorts members by name, and lists of texts, since claims mean them as sets. */
function inOrder(_name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.every((one) => typeof one === 'string') ? value.toSorted() : value
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
