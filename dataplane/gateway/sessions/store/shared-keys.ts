import { createHmac, randomBytes } from 'node:crypto'
import type { RedisClient } from '../../../storage/redis.ts'
import { withRedis } from '../../../storage/redis.ts'

/** Returns the secret that all replicas use; without one, they adopt the `proposed` one. */
export type AgreeOnSecret = (proposed: string) => Promise<string>

const SECRET_BYTES = 32
/** The number of earlier secrets that are still accepted. */
const MOST_KNOWN = 3

/**
 * Keys for values that clients return, the same at all replicas, from one secret: this process's own until replicas
 * have agreed.
 */
export class SharedKeys {
  #secrets: readonly string[] = [randomBytes(SECRET_BYTES).toString('base64url')]
  #agree: AgreeOnSecret | undefined
  /** Tells whether the others were asked for their secret: before that no other replica knows this one's key. */
  hasAsked = false

  /** Agrees with other replicas from now on; undefined if there are none. */
  follow(agree: AgreeOnSecret | undefined): void {
    this.#agree = agree
    const markAsked = (): void => {
      this.hasAsked = true
    }
    this.renew().then(markAsked, markAsked)
  }

  /** Adopts a secret that was replaced, and restores one that was lost. If agreement fails, nothing changes. */
  async renew(): Promise<void> {
    const agreed = await this.#agree?.(this.#secrets[0] as string).catch(() => undefined)
    if (agreed === undefined || agreed === this.#secrets[0]) return
    this.#secrets = [agreed, ...this.#secrets.filter((secret) => secret !== agreed)].slice(0, MOST_KNOWN)
  }

  /** Returns keys of 32 bytes for one use: the first key seals, all of them open. */
  keysFor(use: string): readonly [Buffer, ...Buffer[]] {
    const keys = this.#secrets.map((secret) => createHmac('sha256', secret).update(use).digest())
    return keys as unknown as readonly [Buffer, ...Buffer[]]
  }
}

/** Agrees on a secret that is kept under `key` in Redis. */
export const agreeInRedis =
  (client: RedisClient, key: string): AgreeOnSecret =>
  (proposed) =>
    withRedis(client, async (redis) => {
      await redis.set(key, proposed, 'NX')
      return (await redis.get(key)) ?? proposed
    })
