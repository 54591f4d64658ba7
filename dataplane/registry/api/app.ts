import { type Handler, Hono } from 'hono'
import type { Logger } from 'pino'
import { errorResponse } from '../../server/answer.ts'
import { PublicError } from '../../server/errors.ts'
import { type RequestVariables, requestIds } from '../../server/request-id.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { Reader } from '../store/read.ts'
import { crossOrigin } from './cross-origin.ts'
import { getVersion } from './get-version.ts'
import { listServers } from './list-servers.ts'
import { listVersions } from './list-versions.ts'
import { observeRequest } from './observe-request.ts'

export type RegistryEnv = { Variables: RequestVariables }

export interface RegistryAppOptions {
  readonly reader: Reader
  /** Origins whose pages may read; asked on each request, so that they follow the configuration. */
  origins(): readonly string[]
  readonly log: Logger
  readonly observe: Observe
}

const SERVERS = '/registry/:registry/v0.1/servers'
/** Some clients, and proxies that decode paths, send the slash of a name as it is. */
const NAMES = [`${SERVERS}/:name`, `${SERVERS}/:namespace/:short`]

/** The public face of the registry: the consumer API (MCP registry API v0.1). */
export function registryApp({ reader, origins, log, observe }: RegistryAppOptions): Hono<RegistryEnv> {
  const app = new Hono<RegistryEnv>()
  app.use(requestIds(log))
  app.use('/registry/*', crossOrigin(origins))

  const serve = (name: string, paths: readonly string[], handler: Handler<RegistryEnv>) => {
    for (const path of paths) {
      app.get(path, observeRequest(observe, name), handler)
      app.all(path, refuseMethod)
    }
  }
  serve('servers', [SERVERS], listServers(reader))
  serve(
    'versions',
    NAMES.map((path) => `${path}/versions`),
    listVersions(reader),
  )
  serve(
    'version',
    NAMES.map((path) => `${path}/versions/:version`),
    getVersion(reader),
  )
  serve('me', ['/v1/me'], refuseAnonymous)

  app.notFound(() => {
    throw new PublicError('not_found')
  })
  app.onError((error, c) => {
    const response = errorResponse(error, c.var.log?.() ?? log)
    // Keeps the headers that were set before, those for other origins among them: a page may read errors too.
    return c.newResponse(response.body, response)
  })
  return app
}

function refuseMethod(): never {
  throw new PublicError('method_not_allowed', { headers: { allow: 'GET, HEAD, OPTIONS' } })
}

/** Without authentication no request has an identity to tell of. */
function refuseAnonymous(): never {
  throw new PublicError('unauthenticated', { headers: { 'www-authenticate': 'Bearer' } })
}
