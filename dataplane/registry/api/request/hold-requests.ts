import type { IncomingMessage, ServerResponse } from 'node:http'
import type { MiddlewareHandler } from 'hono'
import { Lease } from '../../../server/budget.ts'
import type { CallerMemory } from './caller-memory.ts'
import type { RegistryEnv } from './operation.ts'

/** Gives each request a lease for what it makes this process hold: its body, and its answer until it is taken. */
export function holdRequests(memory: CallerMemory): MiddlewareHandler<RegistryEnv> {
  return async function holdRequest(c, next) {
    const { incoming, outgoing } = (c.env ?? {}) as { incoming?: IncomingMessage; outgoing?: ServerResponse }
    const held = new Lease(memory.shareOf(c.var.actor, incoming))
    c.set('held', held)
    try {
      await next()
    } finally {
      // What was begun goes on where the client has gone, so that it is counted to its end.
      if (outgoing === undefined || outgoing.destroyed) held.release()
      else outgoing.once('close', () => held.release())
    }
  }
}
