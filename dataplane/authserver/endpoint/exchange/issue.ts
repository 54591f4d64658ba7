import { randomBytes } from 'node:crypto'
import { importJWK, type JWK, SignJWT } from 'jose'
import { LOGIN_CLAIM } from '../../../upstream-tokens/index.ts'
import { DELEGATED_CLAIM } from '../../provider/revocations.ts'
import type { Front } from '../front.ts'
import type { Act } from './act.ts'

/** What a token says that was not issued at a login. */
export interface GrantedToken {
  readonly subject: string
  readonly audience: string
  readonly clientId: string
  readonly scopes: readonly string[]
  readonly lifespanS: number
  readonly act?: Act | undefined
  /** The login whose provider tokens it reaches. */
  readonly login?: string | undefined
  /** The login that it ends with, without reaching it. */
  readonly delegatedLogin?: string | undefined
  readonly name?: string | undefined
  readonly email?: string | undefined
}

/** Signs an access token (RFC 9068). */
export async function issue({ provider, settings }: Front, granted: GrantedToken): Promise<string> {
  const { alg, kid, privateKeys } = provider().keys
  const { subject, audience, clientId, scopes, lifespanS, act, login, delegatedLogin, name, email } = granted
  const now = Math.floor(Date.now() / 1000)
  const claims = {
    jti: randomBytes(32).toString('base64url'),
    sub: subject,
    iat: now,
    exp: now + lifespanS,
    scope: scopes.join(' '),
    client_id: clientId,
    iss: settings.issuer,
    aud: audience,
    name,
    email,
    act,
    [LOGIN_CLAIM]: login,
    [DELEGATED_CLAIM]: delegatedLogin,
  }
  return new SignJWT(claims)
    .setProtectedHeader({ alg, kid, typ: 'at+jwt' })
    .sign(await importJWK(privateKeys[0] as JWK, alg))
}
