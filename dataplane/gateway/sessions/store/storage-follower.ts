import type { Logger } from 'pino'
import { backoffDelay } from '../../../retry/backoff.ts'
import type { SessionStorage } from './storage.ts'

const RETRY = { first: 500, longest: 30_000 }

interface StorageFollowerOptions {
  /** The key of the current storage. Another key means another storage. */
  readonly key: string
  readonly log: Logger
  /** Moves to another storage, which works. Rejects if the old one stays. */
  use(storage: SessionStorage): Promise<void>
}

/**
 * Moves to the storage of the newest configuration once it works. It is tried after half a second at first, later every
 * half minute.
 */
export class StorageFollower {
  readonly #options: StorageFollowerOptions
  #inUse: string
  #wanted: string
  #candidate: SessionStorage | undefined
  #timer: NodeJS.Timeout | undefined
  #failures = 0
  #problem: string | undefined

  constructor(options: StorageFollowerOptions) {
    this.#options = options
    this.#inUse = options.key
    this.#wanted = options.key
  }

  /**
   * The reason why the configured storage is not used; undefined if it is used, or is being tried for the first time.
   */
  get problem(): string | undefined {
    return this.#problem
  }

  /** Follows a configuration whose storage has this key. */
  follow(key: string, open: () => SessionStorage): void {
    if (key === this.#wanted) return
    this.close()
    this.#wanted = key
    this.#failures = 0
    this.#problem = undefined
    if (key === this.#inUse) return
    const candidate = open()
    this.#candidate = candidate
    this.#try(candidate, key)
  }

  #try(candidate: SessionStorage, key: string): void {
    this.#move(candidate, key).catch((error: Error) => this.#failed(candidate, key, error))
  }

  async #move(candidate: SessionStorage, key: string): Promise<void> {
    await candidate.check()
    if (this.#candidate !== candidate) return
    await this.#options.use(candidate)
    if (this.#problem !== undefined) this.#options.log.info('sessions are kept in the new storage now')
    this.#inUse = key
    this.#problem = undefined
    if (this.#candidate === candidate) this.#candidate = undefined
  }

  #failed(candidate: SessionStorage, key: string, error: Error): void {
    if (this.#candidate !== candidate) return
    const { log } = this.#options
    if (this.#problem === undefined)
      log.warn({ err: error }, 'the new storage of sessions does not work; the previous one stays in use')
    this.#problem = 'The configured storage of sessions does not work yet; the previous one stays in use.'
    this.#timer = setTimeout(() => this.#try(candidate, key), backoffDelay(this.#failures++, RETRY))
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#candidate?.close()
    this.#candidate = undefined
  }
}
