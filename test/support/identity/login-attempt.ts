import { REDIRECT, readTokens, type TestClient, type Tokens } from './auth-server.ts'

/** The result of a login: tokens, or an answer after which the user can try again. */
export type Attempt = { readonly tokens: Tokens; readonly code: string } | { readonly sent: string }

/**
 * Logs in while storage fails now and then. Redeems the code at the token endpoints in turn, as long as they answer that
 * they are unavailable. Throws if an answer does not tell people or clients what to do.
 *
 * @param from the URL of the authorization request, or the page that an earlier attempt has reached
 */
export async function attemptLogin(
  client: TestClient,
  from: string,
  tokenEndpoints: readonly string[],
): Promise<Attempt> {
  const end = await client.agent.follow(from, (at) => at.startsWith(REDIRECT))
  if (end.response !== undefined) {
    const { status } = end.response
    const title = /<h1>([^<]+)<\/h1>/.exec(await end.response.text())?.[1]
    if (![400, 429, 503].includes(status) || title === undefined) throw new Error(`${status} at ${end.url}`)
    return { sent: `${status} ${title}` }
  }
  const answer = new URL(end.url).searchParams
  const code = answer.get('code')
  if (code === null) return { sent: `error=${answer.get('error')}` }
  const fields = { client_id: client.id, redirect_uri: REDIRECT, code_verifier: client.verifier, code }
  const body = new URLSearchParams({ grant_type: 'authorization_code', ...fields }).toString()
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  for (let times = 0; times < 30; times++) {
    const url = tokenEndpoints[times % tokenEndpoints.length] as string
    const response = await fetch(url, { method: 'POST', headers, body })
    if (response.ok) return { tokens: await readTokens(response), code }
    const { error } = (await response.json()) as { error?: string }
    if (response.status === 400 && error === 'invalid_grant') return { sent: 'invalid_grant' }
    if (response.status !== 503) throw new Error(`${response.status} ${error} at ${url}`)
  }
  return { sent: 'a token endpoint without storage' }
}
