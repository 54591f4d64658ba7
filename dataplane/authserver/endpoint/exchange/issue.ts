import { type JWK, SignJWT } from 'jose'
import { ASSERTION_CLAIM, LOGIN_CLAIM, PROVIDER_CLAIM } from '../../../upstream-tokens/index.ts'
import { randomSecret } from '../../keys/keyed-hash.ts'
import { DELEGATED_CLAIM, SOURCES_CLAIM } from '../../provider/revocations.ts'
import { IDENTIFIED_CLAIM, MARKS_CLAIM } from '../../provider/rule-marks.ts'
import { selectAudience } from '../../provider/settings.ts'
import { jsonAnswer, OAuthError } from '../oauth-error.ts'
import type { EndpointParts } from '../parts.ts'

/** A party that acted for the subject. */
export interface Actor {
  readonly iss: string
  readonly sub: string
}

/** The claim `act` (RFC 8693 section 4.1): the current actor, which contains the earlier ones. */
interface Act extends Actor {
  readonly act?: Act
}

/** The most actors in a token. Tokens grow with each exchange, so the earliest actors are dropped. */
const LONGEST_CHAIN = 10
const LONGEST_NAME = 1024

/** Builds the claim from the actors, the current one first. */
export function buildAct(actors: readonly Actor[]): Act | undefined {
  return actors
    .slice(0, LONGEST_CHAIN)
    .reduceRight<Act | undefined>((act, { iss, sub }) => ({ iss, sub, ...(act && { act }) }), undefined)
}

/**
 * Returns the actors of a verified token, the latest first. The list ends before the first invalid one. An actor
 * without an issuer gets `issuer`.
 */
export function readActors(claim: unknown, issuer: string): readonly Actor[] {
  const actors: Actor[] = []
  let at = claim
  while (typeof at === 'object' && at !== null && actors.length < LONGEST_CHAIN) {
    const { iss = issuer, sub, act } = at as Readonly<Record<string, unknown>>
    if (!isName(iss) || !isName(sub)) break
    actors.push({ iss, sub })
    at = act
  }
  return actors
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_NAME

/** The content of a token that was not issued at a login. */
export interface GrantedToken {
  readonly subject: string
  readonly audience: string
  readonly clientId: string
  readonly scopes: readonly string[]
  readonly lifespanS: number
  readonly act?: Act | undefined
  /** The login whose provider tokens this token can use. */
  readonly login?: string | undefined
  /** The login with which this token ends. The token gives no access to the login's provider tokens. */
  readonly delegatedLogin?: string | undefined
  /** The tokens and logins that the token was exchanged from. It ends with each of them (`SOURCES_CLAIM`). */
  readonly sources?: readonly string[] | undefined
  /** The provider at which the subject logs in, if the token belongs to no login. */
  readonly loginProvider?: string | undefined
  /** The record name of the claims of the assertion that the token is issued for. */
  readonly assertion?: string | undefined
  readonly name?: string | undefined
  readonly email?: string | undefined
  readonly groups?: readonly string[] | undefined
  /** The marks of the rules, issuers and clients that the token depends on. It ends when one of them is removed. */
  readonly marks?: readonly string[] | undefined
  /** The mark of the provider that has identified the subject at a login. The token ends when that is removed. */
  readonly identifiedBy?: unknown
}

/** Issues an access token. `extra`: members of the answer beside those of RFC 6749 section 5.1. */
export async function issue(parts: EndpointParts, granted: GrantedToken, extra: object = {}): Promise<Response> {
  const { scopes, lifespanS } = granted
  return jsonAnswer({
    access_token: await sign(parts, granted),
    ...extra,
    token_type: 'Bearer',
    expires_in: lifespanS,
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  })
}

/**
 * Signs an access token (RFC 9068). It is bound to the key that the client of the current request has proven to have.
 */
async function sign({ provider, settings, underWay }: EndpointParts, granted: GrantedToken): Promise<string> {
  const { alg, kid, privateKeys } = provider().keys
  const { sources = [], groups = [], marks = [] } = granted
  const now = Math.floor(Date.now() / 1000)
  const jkt = underWay.proofKey()
  const claims = {
    jti: randomSecret(),
    sub: granted.subject,
    iat: now,
    exp: now + granted.lifespanS,
    scope: granted.scopes.join(' '),
    client_id: granted.clientId,
    iss: settings.issuer,
    aud: granted.audience,
    name: granted.name,
    email: granted.email,
    ...(groups.length > 0 && { groups }),
    ...(marks.length > 0 && { [MARKS_CLAIM]: [...new Set(marks)] }),
    [IDENTIFIED_CLAIM]: granted.identifiedBy,
    act: granted.act,
    [LOGIN_CLAIM]: granted.login,
    [DELEGATED_CLAIM]: granted.delegatedLogin,
    ...(sources.length > 0 && { [SOURCES_CLAIM]: sources }),
    [PROVIDER_CLAIM]: granted.loginProvider,
    [ASSERTION_CLAIM]: granted.assertion,
    cnf: jkt && { jkt },
  }
  return new SignJWT(claims).setProtectedHeader({ alg, kid, typ: 'at+jwt' }).sign(privateKeys[0] as JWK)
}

/**
 * Chooses the audience of a token: the allowed one that `resource` or `audience` names (RFC 8693 section 2.1), or the
 * only allowed one. Throws an OAuthError `invalid_target`.
 */
export function audienceFor(...choice: Parameters<typeof selectAudience>): string {
  const audience = selectAudience(...choice)
  if (audience !== undefined) return audience
  throw new OAuthError('invalid_target', 'resource and audience must name exactly one server that is allowed here.')
}

/** Returns the scopes of a token: the requested ones, or all that are allowed. Throws an OAuthError `invalid_scope`. */
export function scopesFor(asked: string | undefined, allowed: readonly string[]): readonly string[] {
  const wanted = asked?.split(' ').filter((scope) => scope !== '') ?? []
  const found = wanted.length === 0 ? allowed : wanted
  if (found.length === 0 || !found.every((scope) => allowed.includes(scope)))
    throw new OAuthError('invalid_scope', 'The scope is wider than what is allowed.')
  return [...new Set(found)]
}
