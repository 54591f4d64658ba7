import type { IncomingMessage } from 'node:http'
import { Hono } from 'hono'
import type { Role } from '../config/registry.ts'
import { resourceMetadataRoutes } from '../identity/resource-metadata-routes.ts'
import { errorResponse, PublicError } from '../server/errors.ts'
import { requestIds } from '../server/request-id.ts'
import { entryOperations, listingOperations } from './api/admin/entries.ts'
import { gateOperation } from './api/admin/gate.ts'
import { explainOperation, meOperation } from './api/admin/identity.ts'
import { publishOperation } from './api/admin/publish.ts'
import { registryOperations } from './api/admin/registries.ts'
import { sourceOperations } from './api/admin/sources.ts'
import { catalogOperations } from './api/catalog/operations.ts'
import type { CatalogReadsOptions } from './api/catalog/reads.ts'
import { openApiRoutes } from './api/openapi.ts'
import { holdRequests } from './api/request/caller-memory.ts'
import type { Api, Operation, RegistryEnv } from './api/request/operation.ts'
import { auditOperation, auditRefusal, observeRequest } from './api/request/record-request.ts'
import { type Actor, hasRole } from './authz/access.ts'
import { pageRoutes, renderError } from './page/routes.ts'
import { crossOrigin, guardRequests } from './settings/hosts-and-origins.ts'

interface RegistryAppOptions extends Omit<CatalogReadsOptions, 'api' | 'away'> {
  readonly api: Api
  readonly version: string
}

/** Creates the public app of the registry: the admin API, pages, and the API's description. */
export function registryApp(options: RegistryAppOptions): Hono<RegistryEnv> {
  const { api, memory, origins, hosts, version, log, audit } = options
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
  // Clients look here for an authorization server before they have a token, so the 404 needs none either.
  app.get('/.well-known/*', () => errorResponse(new PublicError('not_found')))
  app.use(async function identify(c, next) {
    const { incoming } = (c.env ?? {}) as { incoming?: IncomingMessage }
    // The path as it was sent, without the query. In Hono's some escapes are decoded and dot segments resolved.
    const path = (incoming?.url ?? c.req.path).split('?', 1)[0] as string
    try {
      c.set('actor', await api.identity.identify(c.req.header('authorization'), path, incoming))
    } catch (error) {
      auditRefusal(audit, error, incoming, c.var.requestId)
      throw error
    }
    await next()
  })
  app.use(holdRequests(memory))
  app.route('/', pageRoutes(api))
  mount(app, operations, options)

  app.notFound(() => {
    throw new PublicError('not_found')
  })
  app.onError((error, c) => {
    const page = renderError(c, error)
    if (page !== undefined) return page
    const response = errorResponse(error, c.var.log?.() ?? log)
    // It keeps the headers that are set already, such as those for other origins: their pages may read errors too.
    return c.newResponse(response.body, response)
  })
  return app
}

/** Adds the routes of the operations. Other methods on their paths get 405 with the allowed ones. */
function mount(app: Hono<RegistryEnv>, operations: readonly Operation[], options: RegistryAppOptions): void {
  const paths = Map.groupBy(operations, ({ path }) => path)
  for (const [path, onPath] of paths) {
    const allow = listMethods(path, onPath)
    for (const route of listRoutes(path)) {
      for (const { id, method, role, handle } of onPath) {
        const recorders = [
          observeRequest(options.observe, { id, path }),
          auditOperation(options.audit, { id, method }),
        ] as const
        app.on(method.toUpperCase(), route, ...recorders, (c) => {
          if (role !== undefined) requireRole(c.var.actor, role, options.api)
          // Catalog reads are answered before the app. One arrives here if its path had dot segments:
          // `/a/../registry/…`.
          if (handle === undefined) throw new PublicError('not_found')
          return handle(c)
        })
      }
      app.all(route, () => {
        throw new PublicError('method_not_allowed', { headers: { allow } })
      })
    }
  }
}

function requireRole(actor: Actor, role: Role, { identity }: Api): void {
  if (actor.mode !== 'anonymous' && actor.subject === undefined) throw identity.challenge()
  if (!hasRole(actor, role)) throw new PublicError('forbidden_role')
}

/** Lists the routes of a path template. Some clients and proxies don't encode the slash in an entry's name. */
function listRoutes(path: string): readonly string[] {
  const route = path.replace(/\{(\w+)\}/g, ':$1')
  return route.includes(':entry') ? [route, route.replace(':entry', ':namespace/:short')] : [route]
}

/** Lists the allowed methods of a path. OPTIONS is allowed for the catalog only, where `crossOrigin` answers it. */
function listMethods(path: string, operations: readonly Operation[]): string {
  const methods = operations.map(({ method }) => method.toUpperCase())
  if (methods.includes('GET')) methods.push('HEAD')
  if (path.startsWith('/registry/')) methods.push('OPTIONS')
  return methods.join(', ')
}
