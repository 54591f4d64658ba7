import type { IncomingMessage } from 'node:http'
import { Hono } from 'hono'
import type { Logger } from 'pino'
import type { Auditing } from '../audit/event.ts'
import { resourceMetadataRoutes } from '../identity/resource-metadata-routes.ts'
import { errorResponse } from '../server/answer.ts'
import { PublicError } from '../server/errors.ts'
import { requestIds } from '../server/request-id.ts'
import type { Observe } from '../telemetry/observe.ts'
import { entryOperations } from './api/admin/entries.ts'
import { gateOperation } from './api/admin/gate.ts'
import { explainOperation, meOperation } from './api/admin/identity.ts'
import { listingOperations } from './api/admin/listings.ts'
import { publishOperation } from './api/admin/publish.ts'
import { registryOperations } from './api/admin/registries.ts'
import { sourceOperations } from './api/admin/sources.ts'
import { catalogOperations } from './api/catalog/operations.ts'
import { openApiRoutes } from './api/openapi.ts'
import { auditRefusal } from './api/request/audit-request.ts'
import { type CallerMemory, holdRequests } from './api/request/caller-memory.ts'
import type { Api } from './api/request/context.ts'
import { crossOrigin } from './api/request/cross-origin.ts'
import { mount } from './api/request/mount.ts'
import type { RegistryEnv } from './api/request/operation.ts'
import { errorPage, pageRoutes } from './page/routes.ts'
import { type AnsweredHosts, guardRequests } from './settings/host-check.ts'

interface RegistryAppOptions {
  readonly api: Api
  readonly memory: CallerMemory
  origins(): readonly string[]
  hosts(): AnsweredHosts
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
  readonly audit: Auditing
}

/** Creates the public app of the registry: the admin API, pages, and the API's description. */
export function registryApp({
  api,
  memory,
  origins,
  hosts,
  version,
  log,
  observe,
  audit,
}: RegistryAppOptions): Hono<RegistryEnv> {
  const operations = [
    ...catalogOperations,
    ...sourceOperations(api),
    ...registryOperations(api),
    ...listingOperations(api),
    gateOperation(api),
    publishOperation(api),
    ...entryOperations(api),
    meOperation(api),
    explainOperation(api),
  ]
  const app = new Hono<RegistryEnv>()
  app.use(requestIds(log))
  app.use(guardRequests(hosts))
  app.use('/registry/*', crossOrigin(origins))
  app.route('/', resourceMetadataRoutes({ current: () => api.identity.metadata() }))
  app.route('/', openApiRoutes(operations, version))
  // Clients look here for an authorization server before they have a token. It is no secret that there is none.
  app.get('/.well-known/*', () => errorResponse(new PublicError('not_found')))
  app.use(async function identify(c, next) {
    const incoming = findIncoming(c.env)
    try {
      c.set('actor', await api.identity.actorOf(c.req.header('authorization'), rawPath(c.env, c.req.path), incoming))
    } catch (error) {
      auditRefusal(audit, error, incoming, c.var.requestId)
      throw error
    }
    await next()
  })
  app.use(holdRequests(memory))
  app.route('/', pageRoutes(api))
  mount(app, operations, { observe, audit, challenge: api.identity.challenge })

  app.notFound(() => {
    throw new PublicError('not_found')
  })
  app.onError((error, c) => {
    const page = errorPage(c, error)
    if (page !== undefined) return page
    const response = errorResponse(error, c.var.log?.() ?? log)
    // This keeps the headers that were set before, including those for other origins: a page may read errors too.
    return c.newResponse(response.body, response)
  })
  return app
}

const findIncoming = (env: unknown): IncomingMessage | undefined =>
  ((env ?? {}) as { incoming?: IncomingMessage }).incoming

/** Returns the path as sent, without the query. Hono's is decoded in part, and dot segments are resolved in it. */
function rawPath(env: unknown, path: string): string {
  return (findIncoming(env)?.url ?? path).split('?', 1)[0] as string
}
