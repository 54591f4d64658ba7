import type { MiddlewareHandler } from 'hono'
import { checkHost, type HostNames } from '../../server/hosts.ts'

/** Host names that a configuration answers to, and Host headers that were found to be among them. */
export interface AnsweredHosts {
  readonly names: HostNames
  readonly known: Set<string>
}

/** Clients of one server write its name in few ways; more are somebody's play with case and ports. */
const MOST_KNOWN = 64

export const answeredHosts = (names: HostNames): AnsweredHosts => ({ names, known: new Set() })

/**
 * Whether a request may be answered, by its Host header alone: what it asks for may be read by pages of other origins.
 * Throws a PublicError `forbidden_host`.
 */
export function checkHostHeader({ names, known }: AnsweredHosts, host: string | undefined): void {
  if (host !== undefined && known.has(host)) return
  checkHost(names, host, undefined)
  if (host !== undefined && known.size < MOST_KNOWN) known.add(host)
}

/** Paths that pages of any origin may read: the catalog (which of them, `cors` says), and where clients find the issuer. */
const READ_BY_PAGES = /^\/(registry\/|\.well-known\/oauth-protected-resource(\/|$))/
const READS = ['GET', 'HEAD', 'OPTIONS']

/** Refuses requests with a host name that is not ours, and those of foreign pages to all that is not theirs to read. */
export function guardRequests(hosts: () => AnsweredHosts): MiddlewareHandler {
  return async function requestGuard(c, next) {
    const answered = hosts()
    checkHostHeader(answered, c.req.header('host'))
    const isRead = READS.includes(c.req.method) && READ_BY_PAGES.test(c.req.path)
    if (!isRead) checkHost(answered.names, c.req.header('host'), c.req.header('origin'))
    await next()
  }
}
