import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { allowOrigins } from '../server/cross-origin.ts'
import { errorResponse, PublicError } from '../server/errors.ts'
import { type ProtectedResourceMetadata, resourceMetadataPaths } from './resource-metadata.ts'

interface Options {
  /** Returns the metadata for a request; undefined while there is none. */
  readonly current: (c: Context<{ Bindings: HttpBindings }>) => ProtectedResourceMetadata | undefined
  /** Returns the paths of the metadata; default: the bare well-known one and the one with the resource's exact path. */
  readonly paths?: (resource: string) => readonly string[]
}

/** Serves the metadata of a resource (RFC 9728 section 3.1) to pages of every origin; 404 while there is none. */
export function resourceMetadataRoutes({ current, paths = resourceMetadataPaths }: Options) {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use('/.well-known/oauth-protected-resource/*', allowOrigins(['*']))
  app.get('/.well-known/oauth-protected-resource/*', (c) => {
    const metadata = current(c)
    if (metadata === undefined || !paths(metadata.resource).includes(c.req.path))
      return errorResponse(new PublicError('not_found'))
    return c.json(metadata, 200, { 'cache-control': 'no-store' })
  })
  return app
}
