import type { Context } from 'hono'
import { PublicError } from '../../dataplane/server/errors.ts'
import { networksOf } from '../../dataplane/server/network-of.ts'

/** The most concurrent checks, of all and of one network (for IPv6 a /64, a /56 and a /48). */
const MOST = 32
const MOST_OF_NETWORK = 8

/**
 * Limits the checks of viewers who are not identified yet. Anybody may cause such a check, and each one asks the API
 * server or the provider.
 */
export class LoginChecks {
  #all = 0
  readonly #networks = new Map<string, number>()

  /**
   * Runs a check. Throws a PublicError `rate_limited` if too many checks are running, in total or for the viewer's
   * network.
   */
  async run<T>(c: Context, check: () => Promise<T>): Promise<T> {
    const { incoming } = c.env as { incoming?: { socket: { remoteAddress?: string } } }
    const networks = networksOf(incoming?.socket.remoteAddress ?? '')
    if (this.#all >= MOST || networks.some((one) => (this.#networks.get(one) ?? 0) >= MOST_OF_NETWORK))
      throw new PublicError('rate_limited', { headers: { 'Retry-After': '1' } })
    this.#count(networks, 1)
    try {
      return await check()
    } finally {
      this.#count(networks, -1)
    }
  }

  #count(networks: readonly string[], by: number): void {
    this.#all += by
    for (const one of networks) {
      const left = (this.#networks.get(one) ?? 0) + by
      if (left > 0) this.#networks.set(one, left)
      else this.#networks.delete(one)
    }
  }
}
