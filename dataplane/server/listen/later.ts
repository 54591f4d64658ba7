import type { Env, Hono } from 'hono'

/**
 * Answers web requests by an app that is made when the first one comes. What most processes are never asked, or hours after
 * their start, takes no time of the start and no memory until then: with the first web Request Node loads its own undici,
 * 27 ms of processor time.
 */
export function later<E extends Env>(make: () => Promise<Hono<E>>): Hono['fetch'] {
  let app: Promise<Hono<E>> | undefined
  return async function answer(request, env) {
    app ??= make()
    return (await app).fetch(request, env as E['Bindings'])
  }
}
