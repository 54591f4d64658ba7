import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Hono } from 'hono'
import type { Logger } from 'pino'
import { withoutUrlSecrets } from '../../config/check/url.ts'
import { errorResponse, type HttpAnswer, httpError, PublicError } from '../errors.ts'
import { type Listener, listen, PRE_STOP } from './listen.ts'

export interface AdminOptions {
  /** Returns the state of the process, for people and for the operator; no secrets. */
  status(): object
  /** Returns true if the process accepts requests. */
  ready(): true | { readonly reason: string }
  readonly version: { readonly version: string; readonly node: string; readonly apiGroup?: string }
  /** Returns the metrics; undefined while they are off. `accept`: the request's Accept header. */
  metrics?(accept: string | undefined): { readonly text: string; readonly contentType: string } | undefined
  readonly log?: Logger
  /** Asks the clients to leave, and settles when they have. The kubelet calls this hook before it ends the pod. */
  preStop?(): Promise<void>
}

/** The answers to GET and HEAD, by path. */
const routes: Readonly<Record<string, (options: AdminOptions, accept: string | undefined) => HttpAnswer>> = {
  '/healthz': () => json(200, { status: 'ok' }),
  '/readyz'(options) {
    const ready = options.ready()
    return ready === true ? json(200, { status: 'ready' }) : json(503, { status: 'not ready', reason: ready.reason })
  },
  // Any client that reaches this listener may read it, so keys in the URLs of backends are removed.
  '/status': (options) => jsonText(200, withoutUrlSecrets(JSON.stringify(options.status()))),
  '/version': ({ version }) => json(200, version),
  '/metrics'(options, accept) {
    const metrics = options.metrics?.(accept)
    if (metrics === undefined) throw new PublicError('not_found', { message: 'Metrics are not switched on.' })
    return { status: 200, headers: { 'content-type': metrics.contentType }, body: metrics.text }
  },
}

const jsonText = (status: number, body: string): HttpAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body,
})

const json = (status: number, value: object): HttpAnswer => jsonText(status, JSON.stringify(value))

/**
 * Listens on `HOST:PORT` for probes, the operator and Prometheus, without a token: it is not exposed beyond the
 * cluster. It answers on Node's own objects, so that probes load nothing. `web` answers other paths; absent: 404.
 */
export function listenAdmin(address: string, options: AdminOptions, web: Hono['fetch'] = notFound): Promise<Listener> {
  return listen(web, address, {
    direct(incoming, outgoing) {
      const { method } = incoming
      const path = readPath(incoming)
      if (path === PRE_STOP && method === 'GET' && options.preStop) {
        options.preStop().then(
          () => send(outgoing, json(200, { status: 'drained' })),
          () => outgoing.destroy(),
        )
        return true
      }
      const route = Object.hasOwn(routes, path) ? routes[path] : undefined
      if (route === undefined || !(method === 'GET' || method === 'HEAD')) return false
      send(
        outgoing,
        answerOf(() => route(options, incoming.headers.accept), options.log),
      )
      return true
    },
  })
}

function readPath({ url = '' }: IncomingMessage): string {
  return url.startsWith('/') ? (url.split('?', 1)[0] as string) : (URL.parse(url)?.pathname ?? '')
}

function answerOf(answer: () => HttpAnswer, log: Logger | undefined): HttpAnswer {
  try {
    return answer()
  } catch (error) {
    return httpError(error, log)
  }
}

function send(outgoing: ServerResponse, { status, headers, body }: HttpAnswer): void {
  outgoing.writeHead(status, {
    ...headers,
    'cache-control': 'no-store',
    'content-length': Buffer.byteLength(body),
  })
  outgoing.end(body)
}

function notFound(): Response {
  return errorResponse(new PublicError('not_found', { headers: { 'cache-control': 'no-store' } }))
}
