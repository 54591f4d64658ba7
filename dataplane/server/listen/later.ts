import type { Env, Hono } from 'hono'
import type { Logger } from 'pino'
import { errorResponse } from '../answer.ts'

/**
 * Answers web requests by an app that is made when the first one comes. What most processes are never asked, or hours after
 * their start, takes no time of the start and no memory until then: with the first web Request Node loads its own undici,
 * 27 ms of processor time. Where it can't be made (no file descriptor was free to read it, say), the requests that wait for
 * it are answered with 500, the error goes to the log, and the next request has it made again.
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
