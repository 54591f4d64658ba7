import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Auditing } from '../../../audit/event.ts'
import { PublicError } from '../../../server/errors.ts'
import type { Observe, Operation } from '../../../telemetry/observe.ts'
import type { Actor } from '../../authz/actor.ts'
import { type AnsweredHosts, checkHostHeader } from '../../settings/host-check.ts'
import { auditAnswer, auditRefusal } from '../request/audit-request.ts'
import type { CallerMemory } from '../request/caller-memory.ts'
import { type CatalogPath, catalogPath, requestTarget } from '../request/catalog-path.ts'
import type { Api } from '../request/context.ts'
import { openRegistry, readOpen } from '../request/gate.ts'
import { buildFailure, requestOrigin } from '../request/observe-request.ts'
import { parseCatalogQuery } from '../request/query.ts'
import { acceptsGzip, createCatalogBodies } from './bodies.ts'
import { type Exchange, isUnchanged, openExchange, sendError, sendUnchanged, writeBodyHead } from './exchange.ts'
import { catalogIds, catalogPaths } from './operations.ts'

interface CatalogReadsOptions {
  readonly api: Pick<Api, 'reader' | 'visibilityOf' | 'identity'>
  readonly memory: CallerMemory
  away(): string | undefined
  origins(): readonly string[]
  /** The host names that are served. It is called on each request too. */
  hosts(): AnsweredHosts
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
}

/** The telemetry operations of reads, by what a path asks for. */
const operations = { server: buildOperations('server'), skill: buildOperations('skill') }

function buildOperations(type: keyof typeof catalogIds) {
  const { list, versions, version } = catalogIds[type]
  const operation = (name: string): Operation => ({ kind: 'request', name })
  return { list: operation(list), versions: operation(versions), version: operation(version) }
}

/** One read and its caller, handed from step to step of a request. */
interface CatalogRequest {
  readonly path: CatalogPath
  readonly query: URLSearchParams
  readonly actor: Actor
}

interface Ended {
  readonly error: unknown
  readonly startedAt: number
}

/**
 * Creates the handler of the consumer API on Node's own objects: Hono's router, middlewares and web objects cost more
 * than the response (docs/architecture.md). Returns false if the request is for something else.
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
      const actor = await identified(options, exchange, rawPath)
      await observed(exchange, { path, query, actor })
    } catch (error) {
      sendError(exchange, error, log)
    }
  }

  async function observed(exchange: Exchange, request: CatalogRequest): Promise<void> {
    const { type, kind } = request.path
    const observation = observe(operations[type][kind], requestOrigin(exchange.incoming, catalogPaths[type][kind]))
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
    // A list always exists, but an entry must be looked up. While the store is unreachable, a change can't be excluded.
    const known = catalogQuery.kind === 'list' && away() === undefined
    if (known && isUnchanged(ifNoneMatch, open)) return sendUnchanged(exchange, open, actor)

    const gzip = acceptsGzip(headers['accept-encoding'])
    const share = memory.shareOf(actor, exchange.incoming)
    const read = await readOpen(api, actor, open, (its) => bodies(catalogQuery, its, gzip, share))
    const body = read.found
    if (body === undefined) throw new PublicError('not_found')
    const shown = { revision: body.revision ?? read.open.revision, tag: read.open.tag }
    if (isUnchanged(ifNoneMatch, shown)) sendUnchanged(exchange, shown, actor)
    else memory.send(exchange.outgoing, body.bytes, share, () => writeBodyHead(exchange, body, shown, actor))
  }

  return function answerCatalogRead(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    if (incoming.method !== 'GET' && incoming.method !== 'HEAD') return false
    const target = requestTarget(incoming.url ?? '')
    const path = catalogPath(target.path)
    if (path === undefined) return false
    respond(openExchange(incoming, outgoing, origins()), path, target.query, target.path).catch(() =>
      outgoing.destroy(),
    )
    return true
  }
}

async function identified(
  { api, audit }: CatalogReadsOptions,
  { incoming, requestId }: Exchange,
  rawPath: string,
): Promise<Actor> {
  try {
    return await api.identity.actorOf(incoming.headers.authorization, rawPath, incoming)
  } catch (error) {
    auditRefusal(audit, error, incoming, requestId)
    throw error
  }
}

function auditRead(
  { log }: Auditing,
  { incoming, requestId, traceparent }: Exchange,
  { path, actor }: CatalogRequest,
  ended: Ended,
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
