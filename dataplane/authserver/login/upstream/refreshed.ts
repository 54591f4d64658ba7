import * as client from 'openid-client'
import { scrubbed } from './provider-fetch.ts'
import { type RefreshAnswer, type RefreshedTokens, UpstreamDenied } from './upstream.ts'

/**
 * Makes the answer to a refresh of what a request gives. `rotated`: the refresh token of an answer that won't do
 * otherwise; the one before has been used up by it.
 */
export async function refreshed(
  request: () => Promise<RefreshedTokens & { readonly refreshToken?: string }>,
  rotated: () => string | undefined,
): Promise<RefreshAnswer> {
  try {
    const { refreshToken: next, ...tokens } = await request()
    return { ...(next !== undefined && { refreshToken: next }), tokens }
  } catch (error) {
    if (error instanceof client.ResponseBodyError && error.error === 'invalid_grant')
      throw new UpstreamDenied('the refresh token is good no more')
    const next = rotated()
    if (next === undefined) throw scrubbed(error)
    return { refreshToken: next, problem: scrubbed(error) }
  }
}
