import type { MiddlewareHandler } from 'hono'
import { checkHost, type HostNames } from '../../server/hosts.ts'

/** The host names that the registry answers to. */
export interface AnsweredHosts {
  readonly names: HostNames
  /** Host headers that have passed the check. */
  readonly known: Set<string>
}

/** Clients write a host's name in few ways, so more need not be remembered. */
const MOST_KNOWN = 64

export const createAnsweredHosts = (names: HostNames): AnsweredHosts => ({ names, known: new Set() })

/** Checks the Host header, and no Origin. Throws a PublicError `forbidden_host`. */
export function checkHostHeader({ names, known }: AnsweredHosts, host: string | undefined): void {
  if (host !== undefined && known.has(host)) return
  checkHost(names, host, undefined)
  if (host !== undefined && known.size < MOST_KNOWN) known.add(host)
}

/** The paths that pages of any origin may read: the catalog, and the metadata that names the issuers. */
const READ_BY_PAGES = /^\/(registry\/|\.well-known\/oauth-protected-resource(\/|$))/
const READS = ['GET', 'HEAD', 'OPTIONS']

/** Refuses requests for other hosts, and requests from pages of other origins except reads of the paths above. */
export function guardRequests(hosts: () => AnsweredHosts): MiddlewareHandler {
  return async function requestGuard(c, next) {
    const answered = hosts()
    checkHostHeader(answered, c.req.header('host'))
    const isRead = READS.includes(c.req.method) && READ_BY_PAGES.test(c.req.path)
    if (!isRead) checkHost(answered.names, c.req.header('host'), c.req.header('origin'))
    await next()
  }
}

const DAY_S = 86_400

/** The response headers that pages of other origins may read. */
export const EXPOSED_HEADERS = 'ETag, X-Request-Id, WWW-Authenticate, Retry-After'

/** Returns the value of `Access-Control-Allow-Origin`; undefined if pages of this origin may not read. */
export function findAllowedOrigin(allowed: readonly string[], origin: string | undefined): string | undefined {
  if (allowed.includes('*')) return '*'
  return origin !== undefined && allowed.includes(origin) ? origin : undefined
}

/**
 * Lets pages of the configured origins read the catalog; `*` allows all. The methods and headers are those that GitHub
 * Copilot requires.
 */
export function crossOrigin(origins: () => readonly string[]): MiddlewareHandler {
  return async function crossOriginReads(c, next) {
    const allowed = findAllowedOrigin(origins(), c.req.header('origin'))
    if (allowed !== undefined) c.header('access-control-allow-origin', allowed)
    if (allowed !== '*') c.header('vary', 'Origin')

    if (c.req.method === 'OPTIONS') {
      c.header('access-control-allow-methods', 'GET, OPTIONS')
      c.header('access-control-allow-headers', 'Authorization, Content-Type')
      c.header('access-control-max-age', String(DAY_S))
      return c.body(null, 204)
    }
    c.header('access-control-expose-headers', EXPOSED_HEADERS)
    return next()
  }
}
