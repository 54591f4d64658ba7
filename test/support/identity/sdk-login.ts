import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/client'
import { secret } from '../../secrets/watch.ts'
import { given } from '../given.ts'
import { REDIRECT } from './auth-server.ts'
import { UserAgent } from './user-agent.ts'

interface Kept {
  client?: OAuthClientInformationMixed
  tokens?: OAuthTokens
  verifier?: string
  /** The parameters of the redirect after the login. */
  answer?: URLSearchParams
}

/** Stores what an SDK client saves, and logs in at the URL to which the client redirects. */
export function loginProvider(redirect = REDIRECT) {
  const kept: Kept = {}
  return {
    kept,
    redirectUrl: redirect,
    clientMetadata: { client_name: 'Test client', redirect_uris: [redirect] },
    clientInformation: () => kept.client,
    saveClientInformation: (client: OAuthClientInformationMixed) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens(tokens: OAuthTokens) {
      secret(tokens.access_token)
      if (tokens.refresh_token !== undefined) secret(tokens.refresh_token)
      kept.tokens = tokens
    },
    saveCodeVerifier: (verifier: string) => void (kept.verifier = secret(verifier)),
    codeVerifier: () => given(kept.verifier),
    async redirectToAuthorization(url: URL) {
      const end = await new UserAgent().follow(url.href, (at) => at.startsWith(redirect))
      kept.answer = new URL(end.url).searchParams
      secret(given(kept.answer.get('code')))
    },
  }
}
