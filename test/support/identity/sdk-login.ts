import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/client'
import { secret } from '../../secrets/watch.ts'
import { unwrap } from '../unwrap.ts'
import { REDIRECT } from './auth-server.ts'
import { UserAgent } from './user-agent.ts'

interface Stored {
  client?: OAuthClientInformationMixed
  tokens?: OAuthTokens
  verifier?: string
  /** The parameters of the redirect after the login. */
  answer?: URLSearchParams
}

/** Stores what an SDK client saves, and logs in at the URL to which the client redirects. */
export function loginProvider(redirect = REDIRECT) {
  const stored: Stored = {}
  return {
    stored,
    redirectUrl: redirect,
    clientMetadata: { client_name: 'Test client', redirect_uris: [redirect] },
    clientInformation: () => stored.client,
    saveClientInformation: (client: OAuthClientInformationMixed) => void (stored.client = client),
    tokens: () => stored.tokens,
    saveTokens(tokens: OAuthTokens) {
      secret(tokens.access_token)
      if (tokens.refresh_token !== undefined) secret(tokens.refresh_token)
      stored.tokens = tokens
    },
    saveCodeVerifier: (verifier: string) => void (stored.verifier = secret(verifier)),
    codeVerifier: () => unwrap(stored.verifier),
    async redirectToAuthorization(url: URL) {
      const end = await new UserAgent().follow(url.href, (at) => at.startsWith(redirect))
      stored.answer = new URL(end.url).searchParams
      secret(unwrap(stored.answer.get('code')))
    },
  }
}
