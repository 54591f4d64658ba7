import type { MiddlewareHandler } from 'hono'
import { checkHost, type HostNames } from '../../server/hosts.ts'

export interface AnsweredHosts {
  readonly names: HostNames
  readonly known: Set<string>
}

/** Clients of one server write its name in few ways. More variants only play with case and ports. */
const MOST_KNOWN = 64

export const answeredHosts = (names: HostNames): AnsweredHosts => ({ names, known: new Set() })

/** Checks the Host header only: pages of other origins may read the response. Throws a PublicError `forbidden_host`. */
export function checkHostHeader({ names, known }: AnsweredHosts, host: string | undefined): void {
  if (host !== undefined && known.has(host)) return
  checkHost(names, host, undefined)
  if (host !== undefined && known.size < MOST_KNOWN) known.add(host)
}

/** The paths that pages of any origin may read: the catalog, and where clients find the issuer. */
const READ_BY_PAGES = /^\/(registry\/|\.well-known\/oauth-protected-resource(\/|$))/
const READS = ['GET', 'HEAD', 'OPTIONS']

/** Refuses requests with a foreign host name, and requests of foreign pages to all that they may not read. */
export function guardRequests(hosts: () => AnsweredHosts): MiddlewareHandler {
  return async function requestGuard(c, next) {
    const answered = hosts()
    checkHostHeader(answered, c.req.header('host'))
    const isRead = READS.includes(c.req.method) && READ_BY_PAGES.test(c.req.path)
    if (!isRead) checkHost(answered.names, c.req.header('host'), c.req.header('origin'))
    await next()
  }
}
