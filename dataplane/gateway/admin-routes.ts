import { Hono } from 'hono'
import { errorResponse } from '../server/answer.ts'
import { readBody } from '../server/body.ts'
import { PublicError } from '../server/errors.ts'
import { checkHost } from '../server/hosts.ts'
import { explain } from './core/explain.ts'
import type { Gateway } from './core/gateway.ts'

const MOST_BYTES = 64 * 1024
/** Pages of this machine alone may ask. */
const NO_NAMES: ReadonlySet<string> = new Set()

/** What the admin listener serves of a gateway alone: `POST /explain`. */
export function adminRoutes(running: () => Gateway): Hono {
  const app = new Hono()
  app.use(async (c, next) => {
    await next()
    c.header('cache-control', 'no-store')
  })
  app.post('/explain', async (c) => {
    // What is asked by a page has an Origin; a page of another site may be here under its own name (DNS rebinding).
    checkHost(NO_NAMES, 'localhost', c.req.header('origin'))
    // A page in somebody's browser can send other types without asking first.
    if (c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase() !== 'application/json')
      throw new PublicError('unsupported_media_type')
    const body = await readBody(c, MOST_BYTES)
    const { shared, setup } = running()
    const { catalog, promptsAndResources } = shared
    return c.json(explain({ judge: setup.judge, catalog, promptsAndResources }, body.toString()))
  })
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error))
  return app
}
