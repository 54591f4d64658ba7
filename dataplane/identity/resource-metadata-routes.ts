import { Hono } from 'hono'
import { errorResponse } from '../server/answer.ts'
import { allowOrigins } from '../server/cross-origin.ts'
import { PublicError } from '../server/errors.ts'
import { type ProtectedResourceMetadata, resourceMetadataPaths } from './resource-metadata.ts'

/**
 * Serves the metadata of the resource that `current` gives, on the bare well-known path and on the one with exactly
 * the resource's own path (RFC 9728 section 3.1); 404 while there is none. Pages of every origin may read it: clients
 * in browsers look here first.
 */
export function resourceMetadataRoutes(current: () => ProtectedResourceMetadata | undefined): Hono {
  const app = new Hono()
  app.use('/.well-known/oauth-protected-resource/*', allowOrigins(['*']))
  app.get('/.well-known/oauth-protected-resource/*', (c) => {
    const metadata = current()
    if (metadata === undefined || !resourceMetadataPaths(metadata.resource).includes(c.req.path))
      return errorResponse(new PublicError('not_found'))
    return c.json(metadata, 200, { 'cache-control': 'no-store' })
  })
  return app
}
