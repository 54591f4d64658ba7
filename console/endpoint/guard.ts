import type { Context, MiddlewareHandler } from 'hono'
import { PublicError } from '../../dataplane/server/errors.ts'
import { checkHost, type HostNames } from '../../dataplane/server/hosts.ts'

interface GuardOptions {
  /** Host names that are accepted besides loopback names and addresses. */
  readonly names: HostNames
  /** The origin of the pages; undefined: derived from the Host header, over http. */
  readonly origin: string | undefined
  /** True for a console that the viewer runs on their own machine. */
  readonly isLocal: boolean
}

/** The paths at which a browser returns from another site after a login. */
const RETURNS: ReadonlySet<string> = new Set(['/login/callback', '/client/callback'])

/**
 * Refuses requests with foreign host names (DNS rebinding) and requests from pages of other origins. On a viewer's own
 * machine this includes pages at other ports, because browsers send cookies to all ports of a host.
 */
export function guard({ names, origin, isLocal }: GuardOptions): MiddlewareHandler {
  return async function guardRequest(c, next) {
    checkHost(names, c.req.header('host'), undefined)
    const own = origin ?? `http://${c.req.header('host')}`
    const from = c.req.header('origin')
    if (from !== undefined && from !== own) throw new PublicError('forbidden_host')
    const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
    if (!isRead && from === undefined) throw new PublicError('forbidden_host')
    if (!isSiteAllowed(c, isRead, isLocal)) throw new PublicError('forbidden_host')
    await next()
  }
}

function isSiteAllowed(c: Context, isRead: boolean, isLocal: boolean): boolean {
  const site = c.req.header('sec-fetch-site')
  const isNavigation = c.req.header('sec-fetch-mode') === 'navigate' && c.req.header('sec-fetch-dest') === 'document'
  if (c.req.header('sec-fetch-dest')?.includes('frame')) return false
  if (site === undefined || site === 'same-origin') return true
  if (!isRead) return false
  if (site === 'none') return true
  return isNavigation && (!isLocal || RETURNS.has(c.req.path))
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // With `no-referrer`, browsers would send `null` as the Origin of a form.
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
  vary: 'Accept, Cookie',
}

/** Sets security headers on every answer. */
export const securityHeaders: MiddlewareHandler = async function securityHeaders(c, next) {
  for (const [name, value] of Object.entries(HEADERS)) c.header(name, value)
  await next()
}
