import type { Env, Hono } from 'hono'
import type { Logger } from 'pino'
import { errorResponse } from '../errors.ts'

/**
 * Answers web requests by an app that is made at the first one, because the first web Request makes Node load its own
 * undici (27 ms of processor time). If the app can't be made, the waiting requests get 500, and the next one tries again.
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
