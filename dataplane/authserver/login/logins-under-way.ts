import { networksOf } from '../../server/network-of.ts'

interface LoginsUnderWayOptions {
  /** The memory for all logins together, in bytes. */
  readonly mostBytes: number
  /** The longest life of one login, in milliseconds. */
  readonly longestMs: number
  readonly now?: () => number
}

interface Held {
  readonly networks: readonly string[]
  readonly bytes: number
  readonly until: number
}

/**
 * The logins in progress, if their records are in memory. New logins never evict earlier ones. A network gets at most
 * half of the memory that is still free, so some is always left for others.
 */
export class LoginsUnderWay {
  readonly #options: LoginsUnderWayOptions
  readonly #now: () => number
  /** Logins by name, the first to end first. */
  readonly #held = new Map<string, Held>()
  readonly #byNetwork = new Map<string, number>()
  #total = 0

  constructor(options: LoginsUnderWayOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /**
   * Begins a login if there is room, and returns whether there was. The login counts until it ends or its time is over.
   */
  begin(name: string, address: string | undefined, bytes: number): boolean {
    const { mostBytes, longestMs } = this.#options
    const now = this.#now()
    for (const [other, { until }] of this.#held) {
      if (until > now) break
      this.end(other)
    }
    this.end(name)
    const networks = networksOf(address ?? '')
    const own = (network: string) => this.#byNetwork.get(network) ?? 0
    // The widest network counts, so an IPv6 /48 gets no more than one IPv4 address.
    if (own(networks.at(-1) as string) + bytes > (mostBytes - this.#total) / 2) return false
    this.#held.set(name, { networks, bytes, until: now + longestMs })
    for (const network of networks) this.#byNetwork.set(network, own(network) + bytes)
    this.#total += bytes
    return true
  }

  end(name: string): void {
    const held = this.#held.get(name)
    if (held === undefined) return
    this.#held.delete(name)
    this.#total -= held.bytes
    for (const network of held.networks) {
      const left = (this.#byNetwork.get(network) ?? 0) - held.bytes
      if (left > 0) this.#byNetwork.set(network, left)
      else this.#byNetwork.delete(network)
    }
  }
}
