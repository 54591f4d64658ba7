import { type Credential, CredentialError } from './credential.ts'
import type { IssuedToken, TokenEndpoint } from './token-endpoint.ts'

/** A header with a bearer token. Throws where the token is of another kind: one that is bound to a key can't be sent so. */
export function bearerCredential(
  headerName: string,
  { token, tokenType, expiresAt }: IssuedToken,
  { name }: Pick<TokenEndpoint, 'name'>,
): Credential {
  if (tokenType.toLowerCase() === 'bearer') return { headers: [headerName, `Bearer ${token}`], expiresAt }
  throw new CredentialError(`${name} gave a token that is no bearer token`, {
    text: `${name} gives no bearer tokens`,
    isPassing: false,
  })
}
