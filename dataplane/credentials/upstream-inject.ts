import type { UpstreamInjectConfig } from '../config/credential.ts'
import type { Strategy } from './credential.ts'
import type { UpstreamTokens } from './upstream-tokens.ts'

/** How long a token is used before the store is asked again: so soon one is noticed that was replaced or unlinked. */
const KEEP_MS = 5_000
const BEARER = 'Bearer '

/** Sends the access token that an upstream provider gave the caller at login. */
export const upstreamInject = ({ providerName }: UpstreamInjectConfig, upstreamTokens: UpstreamTokens): Strategy => ({
  key: JSON.stringify(['upstreamInject', providerName]),
  isOfLogin: true,
  async obtain({ issuer, subject, login }, refused) {
    const before = refused?.headers[1]?.slice(BEARER.length)
    const { token, expiresAt } = await upstreamTokens.accessToken({ issuer, subject, login }, providerName, before)
    return { headers: ['authorization', BEARER + token], expiresAt, keepMs: KEEP_MS }
  },
  close: () => Promise.resolve(),
})
