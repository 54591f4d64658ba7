import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Caller } from '../../../identity/caller.ts'
import { refuseCompressed } from '../../../server/body.ts'
import { PublicError } from '../../../server/errors.ts'
import { checkOrigin } from '../../request/cross-origin.ts'
import { bindingOf } from '../../sessions/binding.ts'
import { type EndpointExchange, LARGEST_BODY, tooLarge } from './endpoint-exchange.ts'

const MOST_KNOWN_HOSTS = 256
/** The longest Host header that is cached. */
const LONGEST_HOST = 261

type Next = (request: EndpointExchange) => void | Promise<void>

/** Checks the host, authenticates the caller, and continues with `next`. All HTTP methods begin with it. */
export function admit(request: EndpointExchange, next: Next): void {
  const { headers } = request.req
  checkKnownHost(request, headers)
  const { proofs } = request.setup
  if (proofs?.nonce !== undefined) request.res.setHeader('DPoP-Nonce', proofs.nonce)
  const caller = request.setup.authenticate(headers.authorization, request.req)
  if (caller instanceof Promise) {
    caller.then((known) => admitted(request, known, next)).catch((error) => request.fail(error))
    return
  }
  admitted(request, caller, next)
}

/** Checks the host. The same few hosts recur, so accepted ones are cached. */
function checkKnownHost({ setup }: EndpointExchange, headers: IncomingHttpHeaders): void {
  const { host, origin } = headers
  const { knownHosts } = setup
  if (origin === undefined && host !== undefined && knownHosts.has(host)) return
  checkOrigin(setup, headers)
  if (host !== undefined && host.length <= LONGEST_HOST && knownHosts.size < MOST_KNOWN_HOSTS) knownHosts.add(host)
}

function admitted(request: EndpointExchange, caller: Caller, next: Next): void {
  const { gateway, setup, req } = request
  const { budget, views } = gateway
  // Anonymous callers are distinguished by their address only. All logins of a user have the same share.
  const share =
    caller.kind === 'anonymous' ? budget.shareOfAddress(setup.addressOf(req)) : budget.shareOf(bindingOf(caller))
  const known = request.admit(caller, views.bindingOf(caller), share)
  const own = views.viewFor(known)
  const admitted = own === undefined ? known : known.see(own)
  const gated = gateway.gated.viewFor(caller, admitted.binding, own)
  if (gated !== undefined) admitted.see(gated)
  admitted.run(next)
}

/** The Accept header that nearly all clients send; both SDKs do. */
const USUAL_ACCEPT = 'application/json, text/event-stream'

/** Checks that a POST has JSON of an allowed size and accepts both forms of answer. Returns its declared length. */
export function checkPost({ headers }: IncomingMessage): number {
  if (!isJson(headers['content-type'])) throw new PublicError('unsupported_media_type')
  refuseCompressed(headers['content-encoding'])
  const { accept } = headers
  if (accept !== USUAL_ACCEPT && !(accepts(accept, 'application/json') && accepts(accept, 'text/event-stream')))
    throw new PublicError('not_acceptable')
  const length = Number(headers['content-length'] ?? 0)
  if (length > LARGEST_BODY) throw tooLarge()
  return length
}

/** Checks that a GET accepts a stream of events. */
export function checkGet({ headers }: IncomingMessage): void {
  if (!accepts(headers.accept, 'text/event-stream'))
    throw new PublicError('not_acceptable', { message: 'Accept must allow text/event-stream.' })
}

function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

function accepts(header: string | undefined, type: string): boolean {
  if (header === undefined) return false
  if (header.includes(type) && !header.includes('q=0')) return true
  return header.split(',').some((part) => {
    const [range = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
    if (parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) return false
    return range === type || range === '*/*' || range === type.replace(/\/.*/, '/*')
  })
}
