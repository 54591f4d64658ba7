import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** How long a user may take for the sign-in that a key needs, in seconds. */
const WAY_S = 600

/** A key that a user is about to enter. */
interface Way {
  readonly provider: string
  /** The proof of the link that named its user; empty: the user came from the page of sessions. */
  readonly proof: string
}

const cookieName = ({ isSecure }: EndpointParts['settings']) => (isSecure ? '__Host-portico-key' : 'portico-key')
const options = ({ isSecure }: EndpointParts['settings']) =>
  ({ path: '/', httpOnly: true, sameSite: 'Lax', secure: isSecure }) as const

/** Has the browser come back to a key after the sign-in that it needs. */
export const keepWay = ({ settings }: EndpointParts, c: EndpointContext, { provider, proof }: Way): void =>
  setCookie(c, cookieName(settings), new URLSearchParams({ provider, for: proof }).toString(), {
    ...options(settings),
    maxAge: WAY_S,
  })

export const dropWay = ({ settings }: EndpointParts, c: EndpointContext): void => {
  deleteCookie(c, cookieName(settings), options(settings))
}

/** Returns the way back to a key after a sign-in, as a URL relative to the pages; undefined if none led here. */
export function wayToKey(parts: EndpointParts, c: EndpointContext): string | undefined {
  const query = new URLSearchParams(getCookie(c, cookieName(parts.settings)) ?? '')
  const [provider, proof] = [query.get('provider'), query.get('for')]
  if (provider === null || proof === null || !parts.keys.has(provider)) return undefined
  return `key?${new URLSearchParams({ provider, ...(proof !== '' && { for: proof }) })}`
}
