import { type Caller, isExpired } from '../../identity/index.ts'
import { PublicError } from '../../server/errors.ts'
import type { Exchange } from './exchange.ts'

/** A response that lasts no longer than the token of its request. */
export interface TokenHolder {
  readonly context: Pick<Exchange, 'req' | 'caller' | 'binding' | 'renew' | 'isRemote'>
  /** The `performance.now()` of the last check that found the token valid. */
  checkedAt: number
  /** Ends the response: the token has expired or was revoked. */
  tokenEnded(): void
}

/** The message for a client that waits for an answer when the token of its request ends. */
export const TOKEN_ENDED = 'The token has expired or was revoked; the request may have been carried out.'

interface TokenWatchOptions {
  /** Returns the function that checks the token of a request that was admitted. */
  authenticate(): (authorization: string | undefined) => Caller | Promise<Caller>
  /** Returns token holders besides those that were added. */
  others(): Iterable<TokenHolder>
  bindingOf(caller: Caller): string
  onFault(error: unknown): void
}

const SWEEP_MS = 1_000
/** The interval between checks of a token. TokenCache keeps a good result for a minute, so most checks are local. */
const CHECK_MS = 10_000

/**
 * Ends responses whose token has ended: at its expiry plus skew, or within 70 seconds if it was revoked or its issuer
 * is no longer accepted. One timer checks all of them; requests that are answered soon cost nothing. The check uses the
 * cache of the function that admits requests, so that all streams of a token share one check.
 */
export class TokenWatch {
  readonly #options: TokenWatchOptions
  readonly #holders = new Set<TokenHolder>()
  readonly #timer: NodeJS.Timeout

  constructor(options: TokenWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.sweep(), SWEEP_MS)
    this.#timer.unref()
  }

  add(holder: TokenHolder): void {
    if (holder.context.caller.kind === 'authenticated') this.#holders.add(holder)
  }

  delete(holder: TokenHolder): void {
    this.#holders.delete(holder)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Checks the tokens. `now` in milliseconds since 1970, `tick` from `performance.now()`. */
  sweep(now = Date.now(), tick = performance.now()): void {
    for (const holder of [...this.#holders, ...this.#options.others()]) {
      try {
        if (isExpired(holder.context.caller, now)) this.#end(holder)
        else if (tick - holder.checkedAt >= CHECK_MS) this.#check(holder, tick)
      } catch (error) {
        this.#options.onFault(error)
      }
    }
  }

  #check(holder: TokenHolder, tick: number): void {
    holder.checkedAt = tick
    const { context } = holder
    if (context.caller.kind === 'anonymous') return
    const authenticate = async () => this.#options.authenticate()(context.req.headers.authorization)
    authenticate()
      .then((caller) => {
        if (this.#options.bindingOf(caller) === context.binding) context.renew(caller)
        else this.#end(holder)
      })
      .catch((error: unknown) => {
        if (!(error instanceof PublicError)) this.#options.onFault(error)
        // An issuer that is unreachable has refused nobody.
        else if (error.code === 'unauthenticated' || error.code === 'insufficient_scope') this.#end(holder)
      })
  }

  #end(holder: TokenHolder): void {
    this.#holders.delete(holder)
    holder.tokenEnded()
  }
}
