import type { IncomingMessage } from 'node:http'
import { Hono } from 'hono'
import type { Logger } from 'pino'
import { resourceMetadataRoutes } from '../../identity/index.ts'
import { errorResponse } from '../../server/answer.ts'
import { PublicError } from '../../server/errors.ts'
import { requestIds } from '../../server/request-id.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { errorPage, pageRoutes } from '../page/routes.ts'
import { entryOperations } from './admin/entries.ts'
import { explainOperation } from './admin/explain.ts'
import { listingOperations } from './admin/listings.ts'
import { meOperation } from './admin/me.ts'
import { publishOperation } from './admin/publish.ts'
import { registryOperations } from './admin/registries.ts'
import { sourceOperations } from './admin/sources.ts'
import { catalogOperations } from './catalog.ts'
import type { Api } from './context.ts'
import { crossOrigin } from './cross-origin.ts'
import { mount } from './mount.ts'
import { openApiRoutes } from './openapi-routes.ts'
import type { RegistryEnv } from './operation.ts'

export interface RegistryAppOptions {
  readonly api: Api
  /** Origins whose pages may read; asked on each request, so that they follow the configuration. */
  origins(): readonly string[]
  /** Of this program, for the API's description. */
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
}

/** The public face of the registry besides what `catalogReads` answers: the admin API, pages, and the API's description. */
export function registryApp({ api, origins, version, log, observe }: RegistryAppOptions): Hono<RegistryEnv> {
  const operations = [
    ...catalogOperations,
    ...sourceOperations(api),
    ...registryOperations(api),
    ...listingOperations(api),
    publishOperation(api),
    ...entryOperations(api),
    meOperation(api),
    explainOperation(api),
  ]
  const app = new Hono<RegistryEnv>()
  app.use(requestIds(log))
  app.use('/registry/*', crossOrigin(origins))
  app.route(
    '/',
    resourceMetadataRoutes(() => api.identity.metadata()),
  )
  app.route('/', openApiRoutes(operations, version))
  app.use(async function identify(c, next) {
    c.set('actor', await api.identity.actorOf(c.req.header('authorization'), rawPath(c.env, c.req.path)))
    await next()
  })
  app.route('/', pageRoutes(api))
  mount(app, operations, { observe, challenge: api.identity.challenge })

  app.notFound(() => {
    throw new PublicError('not_found')
  })
  app.onError((error, c) => {
    const page = errorPage(c, error)
    if (page !== undefined) return page
    const response = errorResponse(error, c.var.log?.() ?? log)
    // Keeps the headers that were set before, those for other origins among them: a page may read errors too.
    return c.newResponse(response.body, response)
  })
  return app
}

/** The path as it was sent, without the query: Hono's is decoded in part, and dot segments are resolved in it. */
function rawPath(env: unknown, path: string): string {
  const { incoming } = (env ?? {}) as { incoming?: IncomingMessage }
  return (incoming?.url ?? path).split('?', 1)[0] as string
}
