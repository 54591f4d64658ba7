import type { Env, Hono } from 'hono'
import type { Logger } from 'pino'
import { errorResponse } from '../answer.ts'

/**
 * Answers web requests by an app that is made at the first request. An app that is used rarely or late thus costs no
 * time at the start and no memory until then: with the first web Request Node loads its own undici, 27 ms of processor
 * time. If the app can't be made (for example, no file descriptor was free to read it), the requests that wait for it
 * get 500, the error goes to the log, and the next request tries again.
 */
export function later<E extends Env>(make: () => Promise<Hono<E>>, log?: Logger): Hono['fetch'] {
  let app: Promise<Hono<E>> | undefined
  return async function answer(request, env) {
    app ??= make().catch((error: unknown) => {
      app = undefined
      throw error
    })
    let made: Hono<E>
    try {
      made = await app
    } catch (error) {
      return errorResponse(error, log)
    }
    return made.fetch(request, env as E['Bindings'])
  }
}
