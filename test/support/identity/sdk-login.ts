import { secret } from '../../secrets/watch.ts'
import { REDIRECT } from './auth-server.ts'
import { UserAgent } from './user-agent.ts'

/** Keeps what a client of the SDKs is given, and logs in where it is sent to. */
export function loginProvider(redirect = REDIRECT) {
  const kept: Record<string, any> = {}
  return {
    kept,
    redirectUrl: redirect,
    clientMetadata: { client_name: 'Test client', redirect_uris: [redirect] },
    clientInformation: () => kept['client'],
    saveClientInformation: (client: unknown) => void (kept['client'] = client),
    tokens: () => kept['tokens'],
    saveTokens(tokens: any) {
      secret(tokens.access_token)
      secret(tokens.refresh_token)
      kept['tokens'] = tokens
    },
    saveCodeVerifier: (verifier: string) => void (kept['verifier'] = secret(verifier)),
    codeVerifier: () => kept['verifier'],
    async redirectToAuthorization(url: URL) {
      const end = await new UserAgent().follow(url.href, (at) => at.startsWith(redirect))
      kept['answer'] = new URL(end.url).searchParams
      secret(kept['answer'].get('code'))
    },
  }
}
