import { faultOf, isRefusal } from './provider-fault.ts'
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
    const fault = faultOf(error, 'refresh')
    // Codes differ: `unauthorized_client` at 403, `invalid_token` at 401, one of the provider's own at 400, or any at 200.
    if (isRefusal(error)) throw new UpstreamDenied('the refresh token is good no more', { cause: fault })
    const next = rotated()
    if (next === undefined) throw fault
    return { refreshToken: next, problem: fault }
  }
}
