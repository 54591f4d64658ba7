import type { Credential } from '../../../credentials/index.ts'
import type { StreamPeer } from './session-peer.ts'

const UNAUTHORIZED = 401

/**
 * The credential that a stream is opened with, where a backend is one caller's own. A stream lives longer than a
 * credential: one that opens again, or at another replica, finds none that lasts.
 */
export class StreamCredential {
  readonly #peer: StreamPeer
  #hasRenewed = false
  /** What the stream was opened with last. */
  #sent: Credential | undefined

  constructor(peer: StreamPeer) {
    this.#peer = peer
  }

  /** Undefined where there is one, or none is needed; else settles when there is. Rejects where none can be had. */
  needed(): Promise<unknown> | undefined {
    const { caller } = this.#peer
    const opens = () => {
      this.#sent = caller?.credential
    }
    const needed = caller?.needed()
    if (needed !== undefined) return needed.then(opens)
    opens()
    return undefined
  }

  /**
   * Obtains another one where the backend has refused a stream with this HTTP status for its credential: once, until a
   * stream has begun. Undefined where there is no use in that. Rejects where none can be had.
   */
  renewed(refused: number | undefined): Promise<unknown> | undefined {
    const { caller } = this.#peer
    if (refused !== UNAUTHORIZED || caller === undefined || caller.isFinal || this.#hasRenewed) return undefined
    this.#hasRenewed = true
    return caller.renewed(this.#sent)
  }

  /** A stream has begun: its credential is good. */
  begun(): void {
    this.#hasRenewed = false
  }
}
