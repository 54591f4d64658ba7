import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { httpError } from '../../../server/answer.ts'
import { NOSNIFF } from '../../../server/listen/listen.ts'
import { traceIdOf } from '../../../server/log.ts'
import { requestIdOf } from '../../../server/request-id.ts'
import type { Actor } from '../../authz/actor.ts'
import { allowedOrigin, EXPOSED_HEADERS } from '../request/cross-origin.ts'
import type { ResponseBody } from './body-cache.ts'

export interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly requestId: string
  /** The trace that it belongs to; undefined if nothing is traced. */
  traceparent: string | undefined
  readonly origin: string | undefined
}

/** The parts that decide a response: the registry's revision, and the entries of it that the caller sees. */
interface Revision {
  readonly revision: string
  readonly tag: string
}

export function openExchange(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  origins: readonly string[],
): Exchange {
  const { headers } = incoming
  return {
    incoming,
    outgoing,
    requestId: requestIdOf(headers['x-request-id']),
    traceparent: undefined,
    origin: allowedOrigin(origins, headers.origin),
  }
}

export function writeBodyHead(
  exchange: Exchange,
  { bytes, gzip }: ResponseBody,
  revision: Revision,
  actor: Actor,
): void {
  const fields = revisionFields(exchange, revision, actor)
  if (gzip) fields.push('content-encoding', 'gzip')
  fields.push('content-type', 'application/json', 'content-length', String(bytes.length), ...NOSNIFF)
  exchange.outgoing.writeHead(200, fields)
}

/** Sends a 304: the caller already has this revision. */
export function sendUnchanged(exchange: Exchange, revision: Revision, actor: Actor): void {
  const fields = revisionFields(exchange, revision, actor)
  fields.push(...NOSNIFF)
  exchange.outgoing.writeHead(304, fields).end()
}

/** Sends an error as an HTTP response. It never throws, since nothing would catch that. */
export function sendError(exchange: Exchange, error: unknown, log: Logger): void {
  const { outgoing, origin, requestId, traceparent } = exchange
  const { status, headers, body } = httpError(error, log.child({ requestId, ...traceIdOf(traceparent) }))
  if (outgoing.headersSent) {
    outgoing.destroy()
    return
  }
  const fields = commonFields(exchange)
  for (const [name, value] of Object.entries(headers)) fields.push(name, value)
  // Without this header caches would serve a 404 for a while, and to everybody.
  fields.push('cache-control', 'no-store')
  if (origin !== '*') fields.push('vary', 'Origin')
  fields.push('content-length', String(Buffer.byteLength(body)))
  outgoing.writeHead(status, fields).end(body)
}

type Fields = string[]

function commonFields({ requestId, origin }: Exchange): Fields {
  const fields = ['x-request-id', requestId, 'access-control-expose-headers', EXPOSED_HEADERS]
  if (origin !== undefined) fields.push('access-control-allow-origin', origin)
  return fields
}

/**
 * Returns the header fields that a registry's revision decides. Caches revalidate before each use. If callers are
 * authenticated, the response is private.
 */
function revisionFields(exchange: Exchange, revision: Revision, { mode }: Actor): Fields {
  const everybody = mode === 'anonymous'
  const byOrigin = exchange.origin === '*' ? '' : 'Origin, '
  const fields = commonFields(exchange)
  fields.push('etag', formatEtag(revision), 'cache-control', everybody ? 'no-cache' : 'private, no-cache')
  fields.push('vary', `${byOrigin}${everybody ? '' : 'Authorization, '}Accept-Encoding`)
  return fields
}

/** Returns an ETag. It is weak, since the same response may come compressed or not. */
function formatEtag(revision: Revision): string {
  return `W/${opaqueTag(revision)}`
}

/** Tells whether an `If-None-Match` names this revision, or any by `*` (RFC 9110 section 13.1.2, weak comparison). */
export function isUnchanged(ifNoneMatch: string | undefined, revision: Revision): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(opaqueTag(revision)) || ifNoneMatch.trim() === '*'
}

const opaqueTag = ({ revision, tag }: Revision) => (tag === '' ? `"${revision}"` : `"${revision}.${tag}"`)
