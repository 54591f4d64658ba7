import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { EndpointContext, EndpointParts } from './parts.ts'

/** The time for the sign-in before a user enters a key, in seconds. */
const WAY_S = 600

/** A key that a user is about to enter. */
interface Way {
  readonly provider: string
  /** The proof in the link that names its user; empty if the user came from the account page. */
  readonly proof: string
}

const cookieName = ({ isSecure }: EndpointParts['settings']) => (isSecure ? '__Host-portico-key' : 'portico-key')
const options = ({ isSecure }: EndpointParts['settings']) =>
  ({ path: '/', httpOnly: true, sameSite: 'Lax', secure: isSecure }) as const

/** Stores in a cookie that the browser returns to this key's page after the sign-in. */
export const keepWay = ({ settings }: EndpointParts, c: EndpointContext, { provider, proof }: Way): void =>
  setCookie(c, cookieName(settings), new URLSearchParams({ provider, for: proof }).toString(), {
    ...options(settings),
    maxAge: WAY_S,
  })

export const dropWay = ({ settings }: EndpointParts, c: EndpointContext): void => {
  deleteCookie(c, cookieName(settings), options(settings))
}

/**
 * Returns the URL of the key's page to return to after a sign-in, relative to the pages; undefined if there is none.
 */
export function wayToKey(parts: EndpointParts, c: EndpointContext): string | undefined {
  const query = new URLSearchParams(getCookie(c, cookieName(parts.settings)) ?? '')
  const [provider, proof] = [query.get('provider'), query.get('for')]
  if (provider === null || proof === null || !parts.keys.has(provider)) return undefined
  return `key?${new URLSearchParams({ provider, ...(proof !== '' && { for: proof }) })}`
}
