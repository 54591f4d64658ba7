import { type JWTPayload, jwtVerify } from 'jose'
import { PublicError } from '../../server/errors.ts'
import { LOGIN_CLAIM } from '../../upstream-tokens/index.ts'
import { type Form, readForm, requireClient } from './form.ts'
import { jsonAnswer, NO_STORE, OAuthError } from './oauth-error.ts'
import type { EndpointContext, EndpointParts } from './parts.ts'

/**
 * Revokes a token (RFC 7009). Revoking any token of a login ends the login: its refresh tokens, its access tokens,
 * which the gateway refuses from then on, and the providers' tokens. A token with which an actor acts for a user is
 * revoked alone. A text that is no token gets the same answer (section 2.2).
 */
export async function revoke(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const form = await readForm(c)
  const client = await requireClient(parts, c, form)
  const issued = await readIssued(parts, presented(form))
  if (issued !== undefined) {
    if (issued.clientId !== client.client_id)
      throw new OAuthError('invalid_grant', 'The token was issued to another client.')
    if (issued.grant !== undefined) await parts.grants.end(issued.grant)
    else if (issued.jti !== undefined) await parts.revocations.add(issued.jti, [issued.subject ?? ''])
  }
  c.var.record?.revoked(issued)
  return new Response(null, { status: 200, headers: NO_STORE })
}

/**
 * Introspects a token (RFC 7662). A client with a secret may ask about any token. A public client may ask only about
 * its own tokens, because it proves nothing but that it holds them.
 */
export async function introspect(parts: EndpointParts, c: EndpointContext): Promise<Response> {
  const form = await readForm(c)
  const client = await requireClient(parts, c, form)
  const issued = await readIssued(parts, presented(form))
  const mayAsk = client.token_endpoint_auth_method !== 'none' || issued?.clientId === client.client_id
  const claims = mayAsk ? issued?.claims : undefined
  c.var.record?.introspected(claims)
  return jsonAnswer(claims === undefined ? { active: false } : { active: true, ...claims })
}

function presented(form: Form): string {
  const token = form.get('token')
  if (token === undefined) throw new OAuthError('invalid_request', 'token is missing.')
  return token
}

interface IssuedToken {
  readonly kind: 'access_token' | 'refresh_token'
  /** The login that issued it; absent for a token that was issued without a login. */
  readonly grant?: string
  /** Its `jti`, by which it can be revoked alone. */
  readonly jti?: string
  readonly clientId: string
  readonly subject?: string | undefined
  /** The claims for introspection; undefined if the token is no longer active. */
  readonly claims: Readonly<Record<string, unknown>> | undefined
}

/** Reads a token that was issued here, active or ended. Returns undefined for any other text. */
async function readIssued(parts: EndpointParts, token: string): Promise<IssuedToken | undefined> {
  const grant = parts.provider().refresh.readGrantId(token)
  return grant === undefined ? readAccessToken(parts, token) : readRefreshToken(parts, token, grant)
}

async function readRefreshToken(parts: EndpointParts, token: string, grant: string): Promise<IssuedToken | undefined> {
  const found = await parts.provider().refresh.find(token)
  if (found === undefined) return undefined
  const { clientId, accountId, scope, exp, iat, consumed } = found
  const isCurrent = consumed === undefined && Number(exp) * 1000 > Date.now() && !parts.revocations.has(grant)
  const isGood = isCurrent && (await parts.grants.find(grant)) !== undefined
  return {
    kind: 'refresh_token',
    grant,
    clientId: String(clientId),
    claims: isGood ? { iss: parts.settings.issuer, client_id: clientId, sub: accountId, scope, exp, iat } : undefined,
  }
}

async function readAccessToken(parts: EndpointParts, token: string): Promise<IssuedToken | undefined> {
  const claims = await verified(token, parts.settings.issuer, parts.findKey)
  if (claims === undefined) return undefined
  const { [LOGIN_CLAIM]: login, client_id: clientId, exp = 0, iss, sub, aud, iat, jti, scope, act, cnf } = claims
  if (typeof clientId !== 'string' || jti === undefined) return undefined
  const isGood = exp * 1000 > Date.now() && !parts.hasEnded(claims)
  return {
    kind: 'access_token',
    // An actor may end its own token, but not the user's login.
    ...(typeof login === 'string' && act === undefined && { grant: login }),
    jti,
    clientId,
    subject: sub,
    claims: isGood
      ? { iss, sub, aud, exp, iat, jti, scope, act, cnf, client_id: clientId, token_type: cnf ? 'DPoP' : 'Bearer' }
      : undefined,
  }
}

async function verified(
  token: string,
  issuer: string,
  keys: EndpointParts['findKey'],
): Promise<JWTPayload | undefined> {
  try {
    // An access token that has expired still names its grant and can revoke it.
    const { payload } = await jwtVerify(token, keys, { issuer, typ: 'at+jwt', currentDate: new Date(0) })
    return payload
  } catch (error) {
    if (error instanceof PublicError) throw error
    return undefined
  }
}
