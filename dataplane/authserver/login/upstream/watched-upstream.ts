import { type Upstream, UpstreamDenied } from './upstream.ts'

/** How a provider stands, as far as logins and refreshes have shown it here. Times are RFC 3339. */
export interface UpstreamState {
  readonly name: string
  /** When it last gave what it was asked for; null where it has not been asked yet. */
  readonly lastSuccess: string | null
  /** What went wrong after that: a code, and nothing that the provider has said. */
  readonly lastError: { readonly code: string; readonly at: string } | null
}

/** A provider whose state is known. */
export interface WatchedUpstream extends Upstream {
  readonly state: UpstreamState
}

/** Notes how a provider answers. A person or provider that says no has answered. */
export function watchedUpstream(upstream: Upstream): WatchedUpstream {
  let lastSuccess: UpstreamState['lastSuccess'] = null
  let lastError: UpstreamState['lastError'] = null

  async function watched<T>(pending: Promise<T>): Promise<T> {
    try {
      const answer = await pending
      noteSuccess()
      return answer
    } catch (error) {
      if (error instanceof UpstreamDenied) noteSuccess()
      else lastError = { code: codeOf(error), at: new Date().toISOString() }
      throw error
    }
  }

  function noteSuccess(): void {
    lastSuccess = new Date().toISOString()
    lastError = null
  }

  return {
    name: upstream.name,
    get state() {
      return { name: upstream.name, lastSuccess, lastError }
    },
    authorizationUrl: async (checks, maxAge) => {
      try {
        return await upstream.authorizationUrl(checks, maxAge)
      } catch (error) {
        lastError = { code: codeOf(error), at: new Date().toISOString() }
        throw error
      }
    },
    exchange: (callback, checks) => watched(upstream.exchange(callback, checks)),
    refresh: (token) => watched(upstream.refresh(token)),
    close: () => upstream.close(),
  }
}

const CODE = /^[A-Za-z]\w{0,63}$/

/** The code of the innermost error that has one, or the name of the error. */
function codeOf(error: unknown): string {
  let found = 'Error'
  for (let depth = 0, at = error; depth < 5 && at instanceof Error; depth++, at = at.cause) {
    const { code, name } = at as Error & { code?: unknown }
    if (typeof code === 'string' && CODE.test(code)) found = code
    else if (depth === 0 && CODE.test(name)) found = name
  }
  return found
}
