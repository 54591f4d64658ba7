import type { IncomingHttpHeaders } from 'node:http'
import type { Caller } from '../../../identity/caller.ts'
import { checkOrigin } from '../../request/cross-origin.ts'
import { bindingOf } from '../../sessions/binding.ts'
import type { EndpointRequest } from './endpoint-request.ts'

const MOST_KNOWN_HOSTS = 256
/** A host name is no longer, whatever else its header holds. */
const LONGEST_HOST = 261

type Next = (request: EndpointRequest) => void | Promise<void>

/** Checks what all methods have in common, that is the host, and finds out who calls; then goes on with `next`. */
export function admit(request: EndpointRequest, next: Next): void {
  const { headers } = request.req
  checkKnownHost(request, headers)
  const caller = request.setup.authenticate(headers.authorization, request.req)
  if (caller instanceof Promise) {
    caller.then((known) => admitted(request, known, next)).catch((error) => request.fail(error))
    return
  }
  admitted(request, caller, next)
}

/** The same few hosts come again and again: what was found good is remembered. */
function checkKnownHost({ setup }: EndpointRequest, headers: IncomingHttpHeaders): void {
  const { host, origin } = headers
  const { knownHosts } = setup
  if (origin === undefined && host !== undefined && knownHosts.has(host)) return
  checkOrigin(setup, headers)
  if (host !== undefined && host.length <= LONGEST_HOST && knownHosts.size < MOST_KNOWN_HOSTS) knownHosts.add(host)
}

function admitted(request: EndpointRequest, caller: Caller, next: Next): void {
  request.caller = caller
  if (caller.kind === 'authenticated') request.admittedAt = performance.now()
  request.binding = request.gateway.views.bindingOf(caller)
  // Anonymous callers are distinguished by their address alone; all logins of a user have one share.
  const { budget } = request.gateway
  request.share =
    caller.kind === 'anonymous'
      ? budget.shareOfAddress(request.setup.addressOf(request.req))
      : budget.shareOf(bindingOf(caller))
  request.gateway.views.admit(request)
  request.run(next)
}
