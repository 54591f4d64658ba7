import { Hono } from 'hono'
import type { Logger } from 'pino'
import { withoutUrlSecrets } from '../config/url-secrets.ts'
import { errorResponse } from './answer.ts'
import { PublicError } from './errors.ts'

interface AdminOptions {
  /** What runs, for people and for the operator; no secrets. */
  status(): object
  /** Whether requests may come. */
  ready(): true | { readonly reason: string }
  readonly version: { readonly version: string; readonly node: string; readonly apiGroup?: string }
  /** What Prometheus fetches; undefined while that is switched off. `accept`: the header of whoever asks. */
  metrics?(accept: string | undefined): { readonly text: string; readonly contentType: string } | undefined
  readonly log?: Logger
}

/** The listener for probes, the operator and Prometheus. It needs no token: it is not exposed beyond the cluster. */
export function adminApp(options: AdminOptions): Hono {
  const app = new Hono()
  app.use(async (c, next) => {
    await next()
    c.header('cache-control', 'no-store')
  })
  app.get('/healthz', (c) => c.json({ status: 'ok' }))
  app.get('/readyz', (c) => {
    const ready = options.ready()
    return ready === true ? c.json({ status: 'ready' }) : c.json({ status: 'not ready', reason: ready.reason }, 503)
  })
  // Whoever reaches this listener may read it: keys in the URLs of what is called are not for them.
  app.get('/status', (c) =>
    c.body(withoutUrlSecrets(JSON.stringify(options.status())), 200, { 'content-type': 'application/json' }),
  )
  app.get('/version', (c) => c.json(options.version))
  app.get('/metrics', (c) => {
    const metrics = options.metrics?.(c.req.header('accept'))
    if (metrics === undefined) throw new PublicError('not_found', { message: 'Metrics are not switched on.' })
    return c.body(metrics.text, 200, { 'content-type': metrics.contentType })
  })
  app.notFound(() => errorResponse(new PublicError('not_found')))
  app.onError((error) => errorResponse(error, options.log))
  return app
}
