import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'

/** Makes `fetch` answer requests of Node's HTTP server, as web Requests; `closing` is in its `env`. */
export const webListener = (fetch: Hono['fetch'], closing: AbortSignal) =>
  getRequestListener((request, env) => fetch(request, Object.assign(env, { closing })))
