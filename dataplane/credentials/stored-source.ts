import { hash } from 'node:crypto'
import type { CredentialSource, Subject } from './credential.ts'
import type { StoredKind, TokenHolder, UpstreamTokens } from './upstream-tokens.ts'

/** The token of the caller's login at a provider as what credentials are obtained for; undefined without a provider. */
export function storedSource(
  upstreamTokens: UpstreamTokens,
  provider: string | undefined,
  kind: StoredKind,
): CredentialSource | undefined {
  if (provider === undefined) return undefined
  const holderOf = ({ issuer, subject, login }: Subject): TokenHolder => ({ issuer, subject, login })
  return {
    async digest(subject) {
      const token = await upstreamTokens.stored(holderOf(subject), provider, kind)
      return token === undefined ? undefined : hash('sha256', token, 'base64url')
    },
    refresh: (subject) => upstreamTokens[kind](holderOf(subject), provider),
  }
}
