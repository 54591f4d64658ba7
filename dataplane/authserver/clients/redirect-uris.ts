/** Schemes that a browser runs or reads itself, so that no client can own them. */
const FORBIDDEN_SCHEMES: ReadonlySet<string> = new Set([
  ...['javascript:', 'vbscript:', 'data:', 'blob:', 'file:', 'filesystem:', 'about:', 'view-source:'],
  ...['ws:', 'wss:', 'ftp:', 'mailto:', 'tel:', 'sms:', 'intent:', 'ms-appx:', 'chrome:', 'resource:'],
])
const LONGEST_URI = 2048
/** Printable ASCII without blanks, quotes, angle brackets and backslashes: the characters of a URI (RFC 3986). */
const URI_CHARACTERS = /^[!#-;=?-[\]_a-z~]+$/i
/** A loopback host as written, with its port. Browsers agree on these forms. */
const LOOPBACK = /^http:\/\/(localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?(?=[/?]|$)/i

/**
 * Returns the problem of a redirect URI that a client wants to register; undefined if it is valid. Public clients may
 * use https, http on loopback, and private schemes (RFC 8252 section 7); confidential clients only https, not on
 * loopback.
 */
export function redirectProblem(uri: unknown, isPublic: boolean): string | undefined {
  if (typeof uri !== 'string' || uri.length > LONGEST_URI) return `must be a text of at most ${LONGEST_URI} characters`
  const url = URI_CHARACTERS.test(uri) ? URL.parse(uri) : null
  if (url === null) return 'must be an absolute URI'
  if (uri.includes('#')) return 'must have no fragment'
  if (url.username !== '' || url.password !== '' || CREDENTIALS.test(uri)) return 'must hold no credentials'
  return isPublic ? publicProblem(uri, url) : confidentialProblem(url)
}

/** Matches a URI with credentials: an authority with an `@`. */
const CREDENTIALS = /^[a-z][a-z\d+.-]*:\/\/[^/?]*@/i

function publicProblem(uri: string, { protocol }: URL): string | undefined {
  if (protocol === 'https:') return undefined
  if (protocol === 'http:')
    return LOOPBACK.test(uri) ? undefined : 'must be https; plain http is for localhost, 127.0.0.1 and [::1]'
  return FORBIDDEN_SCHEMES.has(protocol) ? 'must not use this scheme' : undefined
}

function confidentialProblem({ protocol, hostname }: URL): string | undefined {
  if (protocol !== 'https:') return 'must be https for a client with a secret'
  return isLoopbackHost(hostname) ? 'must not be on loopback for a client with a secret' : undefined
}

/** Hosts that mean the computer on which the browser runs. */
const LOOPBACK_HOST = /^(?:(?:.+\.)?localhost\.?|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:(?:7f..:.+|0:0)\])$/

const isLoopbackHost = (host: string): boolean => LOOPBACK_HOST.test(host)

/** Tells whether a redirect URI leads to a web site, which no program on the visitor's computer can impersonate. */
export function isWebSite(uri: string): boolean {
  const { protocol, hostname } = new URL(uri)
  return protocol === 'https:' && !isLoopbackHost(hostname)
}

/**
 * Tells whether a client may get its response at a URI: it must be registered, byte for byte. A public client may use
 * any port of a loopback address that it has registered with http (RFC 8252 section 7.3). Host (except the case of
 * `localhost`), path and query must be the same.
 */
export function isRedirectAllowed(registered: readonly string[], asked: string, isPublic: boolean): boolean {
  if (registered.includes(asked)) return true
  if (!isPublic || redirectProblem(asked, true) !== undefined) return false
  const wanted = withoutPort(asked)
  return wanted !== undefined && registered.some((uri) => withoutPort(uri) === wanted)
}

/** Returns a loopback URI without its port; undefined for every other URI. */
function withoutPort(uri: string): string | undefined {
  const match = LOOPBACK.exec(uri)
  if (match === null || Number(match[2] ?? 0) > 65_535) return undefined
  return `${(match[1] as string).toLowerCase()}${uri.slice(match[0].length)}`
}
