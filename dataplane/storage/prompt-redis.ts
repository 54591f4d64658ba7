import { PublicError } from '../server/errors.ts'
import { type RedisClient, withRedis } from './redis.ts'

/** After Redis has not answered in time, how long no command is sent to it: callers must not queue up behind silence. */
const SILENCE_MS = 1_000

/** Redis for those who can't wait: while it is known to be away commands fail at once. */
export class PromptRedis {
  readonly client: RedisClient
  #away = false
  #silentUntil = 0

  constructor(client: RedisClient) {
    this.client = client
    client.on('close', () => {
      this.#away = true
    })
    client.on('ready', () => {
      this.#away = false
    })
  }

  /** Throws the PublicError `unavailable` while Redis is known to be away. */
  checkHere(): void {
    if ((this.#away && this.client.status !== 'ready') || performance.now() < this.#silentUntil)
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' } })
  }

  /** Runs commands. Rejects with the PublicError `unavailable`: only the very first connection is waited for. */
  async ask<T>(run: (redis: RedisClient) => Promise<T>): Promise<T> {
    this.checkHere()
    try {
      return await withRedis(this.client, run)
    } catch (error) {
      if (/timed out/i.test(String((error as Error).cause))) this.#silentUntil = performance.now() + SILENCE_MS
      throw error
    }
  }
}
