import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Auditing } from '../../../audit/event.ts'
import { httpError, PublicError } from '../../../server/errors.ts'
import { NOSNIFF } from '../../../server/listen/listen.ts'
import { traceIdOf } from '../../../server/log.ts'
import { requestIdOf } from '../../../server/request-id.ts'
import type { Observe, Operation } from '../../../telemetry/observe.ts'
import type { Actor } from '../../authz/access.ts'
import {
  type AnsweredHosts,
  checkHostHeader,
  EXPOSED_HEADERS,
  findAllowedOrigin,
} from '../../settings/hosts-and-origins.ts'
import type { CallerMemory } from '../request/caller-memory.ts'
import { type OpenRegistry, openRegistry, readOpen } from '../request/open-registry.ts'
import type { Api } from '../request/operation.ts'
import { type CatalogPath, parseCatalogPath, parseCatalogQuery, splitTarget } from '../request/query.ts'
import { auditAnswer, auditRefusal, buildFailure, buildOrigin } from '../request/record-request.ts'
import { acceptsGzip, createCatalogBodies, type ResponseBody } from './bodies.ts'
import { catalogIds, catalogPaths } from './operations.ts'

export interface CatalogReadsOptions {
  readonly api: Pick<Api, 'reader' | 'findVisibility' | 'identity'>
  readonly memory: CallerMemory
  away(): string | undefined
  origins(): readonly string[]
  hosts(): AnsweredHosts
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
}

/** The names of reads in telemetry, by type and kind of the path. */
const operations = { server: buildOperations('server'), skill: buildOperations('skill') }

function buildOperations(type: keyof typeof catalogIds) {
  const { list, versions, version } = catalogIds[type]
  const operation = (name: string): Operation => ({ kind: 'request', name })
  return { list: operation(list), versions: operation(versions), version: operation(version) }
}

interface CatalogRequest {
  readonly path: CatalogPath
  readonly query: URLSearchParams
  readonly actor: Actor
}

/**
 * Creates the handler of the consumer API. It returns false for requests to anything else. It works on Node's own
 * objects, since Hono's router, middlewares and web objects cost more than the response (docs/architecture.md).
 */
export function catalogReads(options: CatalogReadsOptions) {
  const { api, memory, away, origins, hosts, log, observe, audit } = options
  const bodies = createCatalogBodies({ reader: api.reader, memory, away })

  async function respond(
    exchange: Exchange,
    path: CatalogPath,
    query: URLSearchParams,
    rawPath: string,
  ): Promise<void> {
    try {
      checkHostHeader(hosts(), exchange.incoming.headers.host)
      const actor = await identify(options, exchange, rawPath)
      await observeAnswer(exchange, { path, query, actor })
    } catch (error) {
      sendError(exchange, error, log)
    }
  }

  async function observeAnswer(exchange: Exchange, request: CatalogRequest): Promise<void> {
    const { type, kind } = request.path
    const observation = observe(operations[type][kind], buildOrigin(exchange.incoming, catalogPaths[type][kind]))
    exchange.traceparent = observation.trace?.traceparent
    const startedAt = performance.now()
    try {
      await answer(exchange, request)
    } catch (error) {
      auditRead(audit, exchange, request, { error, startedAt })
      observation.end(buildFailure(error))
      throw error
    }
    auditRead(audit, exchange, request, { error: undefined, startedAt })
    observation.end({ result: 'ok', status: exchange.outgoing.statusCode })
  }

  async function answer(exchange: Exchange, { path, query, actor }: CatalogRequest): Promise<void> {
    const { headers } = exchange.incoming
    const open = await openRegistry(api, actor, path.registry)
    const catalogQuery = parseCatalogQuery(path, query)
    const ifNoneMatch = headers['if-none-match']
    // A list needs no look-up to answer 304. While the store is unreachable, it may have changed unnoticed.
    const known = catalogQuery.kind === 'list' && away() === undefined
    if (known && isUnchanged(ifNoneMatch, open)) return sendUnchanged(exchange, open, actor)

    const gzip = acceptsGzip(headers['accept-encoding'])
    const share = memory.findShare(actor, exchange.incoming)
    const read = await readOpen(api, actor, open, (its) => bodies(catalogQuery, its, gzip, share))
    const body = read.found
    if (body === undefined) throw new PublicError('not_found')
    const shown = { revision: body.revision ?? read.open.revision, tag: read.open.tag }
    if (isUnchanged(ifNoneMatch, shown)) sendUnchanged(exchange, shown, actor)
    else memory.send(exchange.outgoing, body.bytes, share, () => writeBodyHead(exchange, body, shown, actor))
  }

  return function answerCatalogRead(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    if (incoming.method !== 'GET' && incoming.method !== 'HEAD') return false
    const target = splitTarget(incoming.url ?? '')
    const path = parseCatalogPath(target.path)
    if (path === undefined) return false
    respond(openExchange(incoming, outgoing, origins()), path, target.query, target.path).catch(() =>
      outgoing.destroy(),
    )
    return true
  }
}

async function identify(
  { api, audit }: CatalogReadsOptions,
  { incoming, requestId }: Exchange,
  rawPath: string,
): Promise<Actor> {
  try {
    return await api.identity.identify(incoming.headers.authorization, rawPath, incoming)
  } catch (error) {
    auditRefusal(audit, error, incoming, requestId)
    throw error
  }
}

function auditRead(
  { log }: Auditing,
  { incoming, requestId, traceparent }: Exchange,
  { path, actor }: CatalogRequest,
  ended: Parameters<typeof auditAnswer>[3],
): void {
  if (log === undefined) return
  const { registry, type, kind, name, version } = path
  const asked = {
    request: incoming,
    requestId,
    traceparent: traceparent ?? incoming.headers['traceparent'],
    caller: actor.caller,
    target: {
      operation: catalogIds[type][kind],
      http_method: incoming.method,
      registry,
      entry: name || undefined,
      version: version || undefined,
    },
  }
  auditAnswer(log, 'registry_read', asked, ended)
}

interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly requestId: string
  traceparent: string | undefined
  readonly origin: string | undefined
}

/** The state that a response shows: the registry's revision, and the tag of what the caller sees. */
type Revision = Pick<OpenRegistry, 'revision' | 'tag'>

function openExchange(incoming: IncomingMessage, outgoing: ServerResponse, origins: readonly string[]): Exchange {
  const { headers } = incoming
  return {
    incoming,
    outgoing,
    requestId: requestIdOf(headers['x-request-id']),
    traceparent: undefined,
    origin: findAllowedOrigin(origins, headers.origin),
  }
}

function writeBodyHead(exchange: Exchange, { bytes, gzip }: ResponseBody, revision: Revision, actor: Actor): void {
  const fields = buildRevisionFields(exchange, revision, actor)
  if (gzip) fields.push('content-encoding', 'gzip')
  fields.push('content-type', 'application/json', 'content-length', String(bytes.length), ...NOSNIFF)
  exchange.outgoing.writeHead(200, fields)
}

/** Answers 304: the client already has this revision. */
function sendUnchanged(exchange: Exchange, revision: Revision, actor: Actor): void {
  const fields = buildRevisionFields(exchange, revision, actor)
  fields.push(...NOSNIFF)
  exchange.outgoing.writeHead(304, fields).end()
}

/** Answers with an error. Never throws, since nothing would catch that. */
function sendError(exchange: Exchange, error: unknown, log: Logger): void {
  const { outgoing, origin, requestId, traceparent } = exchange
  const { status, headers, body } = httpError(error, log.child({ requestId, ...traceIdOf(traceparent) }))
  if (outgoing.headersSent) {
    outgoing.destroy()
    return
  }
  const fields = buildCommonFields(exchange)
  for (const [name, value] of Object.entries(headers)) fields.push(name, value)
  // Without this header a cache may serve a 404 for a while, and to everybody.
  fields.push('cache-control', 'no-store')
  if (origin !== '*') fields.push('vary', 'Origin')
  fields.push('content-length', String(Buffer.byteLength(body)))
  outgoing.writeHead(status, fields).end(body)
}

type Fields = string[]

function buildCommonFields({ requestId, origin }: Exchange): Fields {
  const fields = ['x-request-id', requestId, 'access-control-expose-headers', EXPOSED_HEADERS]
  if (origin !== undefined) fields.push('access-control-allow-origin', origin)
  return fields
}

/** Returns the header fields for a revision. Caches must revalidate; responses to authenticated callers are private. */
function buildRevisionFields(exchange: Exchange, revision: Revision, { mode }: Actor): Fields {
  const everybody = mode === 'anonymous'
  const byOrigin = exchange.origin === '*' ? '' : 'Origin, '
  const fields = buildCommonFields(exchange)
  // The ETag is weak, since the same response may come compressed or not.
  const etag = `W/${formatOpaqueTag(revision)}`
  fields.push('etag', etag, 'cache-control', everybody ? 'no-cache' : 'private, no-cache')
  fields.push('vary', `${byOrigin}${everybody ? '' : 'Authorization, '}Accept-Encoding`)
  return fields
}

/** Tells whether an `If-None-Match` names this revision, or any by `*` (RFC 9110 section 13.1.2, weak comparison). */
function isUnchanged(ifNoneMatch: string | undefined, revision: Revision): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(formatOpaqueTag(revision)) || ifNoneMatch.trim() === '*'
}

/** Returns the ETag without its `W/`. */
const formatOpaqueTag = ({ revision, tag }: Revision) => (tag === '' ? `"${revision}"` : `"${revision}.${tag}"`)
