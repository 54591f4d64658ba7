import type { IncomingMessage } from 'node:http'
import type { Caller } from '../../identity/index.ts'

/** A request whose response may go on for long. */
interface Opened {
  readonly req: IncomingMessage
  caller: Caller
  readonly binding: string
  /** Its client is at another replica, which checks the token. */
  readonly isRemote: boolean
}

/** A response that goes on no longer than the token that its request came with. */
export interface TokenHolder {
  readonly context: Opened
  /** `performance.now()` of the last time that the token was found good. */
  checkedAt: number
  /** The token has expired or was revoked: ends the response. */
  tokenEnded(): void
}
