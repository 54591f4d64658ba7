import type { Logger } from 'pino'
import type { Credential } from '../../../credentials/index.ts'
import type { Share } from '../../../server/budget.ts'
import type { BackendHeaders } from '../connection/headers.ts'
import type { BackendAnswer, BackendRequest } from '../connection/request.ts'
import type { Transport } from '../connection/transport.ts'

/** The gateway's `clientInfo`. */
export interface Implementation {
  readonly name: string
  readonly version: string
}

/** A message of our own. */
export type OwnPost = Pick<BackendRequest, 'headers' | 'onHead' | 'isAnswerless' | 'isInSession'> & {
  readonly body: string
  /** Shorter than the usual one. */
  readonly timeoutMs?: number
}

/** The credential of the one caller that a backend is for. */
interface PeerCredential {
  readonly isFinal: boolean
  readonly credential: Credential | undefined
  needed(): Promise<unknown> | undefined
  renewed(refused: Credential | undefined): Promise<unknown>
}

/** What streams to a backend need of it. */
export interface StreamPeer {
  readonly url: URL
  readonly path: string
  /** It has redirected to this path, where it is asked from now on. */
  moved(path: string): void
  readonly dispatcher: Transport
  readonly log: Logger
  /** What it may make the gateway keep. */
  readonly share: Share
  /** For good. */
  readonly closed: boolean
  /** Undefined where it is for all callers. */
  readonly caller?: PeerCredential | undefined
}

/** What a session with a backend needs of it. */
export interface SessionPeer extends StreamPeer {
  readonly name: string
  readonly client: Implementation
  readonly headers: BackendHeaders
  /** Whether it speaks the modern era, so that opening a session is a try. */
  readonly isModern: boolean
  /** Milliseconds that such a try may take. */
  readonly tryTimeoutMs: number
  /** Capabilities that the gateway's own session has: others that are equal are kept once. */
  capabilitiesFor(session: object): Readonly<Record<string, unknown>> | undefined
  /** How it is to be used, as it says. */
  instructions: string | undefined
  /** Sends a message of our own. Rejects with a BackendFailure. */
  post(request: OwnPost): Promise<BackendAnswer>
  /** It has notified that its lists have changed. */
  refreshLists(): void
  /** Whether what it shows may be another thing for each session. */
  readonly mayShowBySession?: boolean
  /** Whether each session holds a stream of its own, which goes on after the server has forgotten the session. */
  readonly hasStreamSessions?: boolean
  /** Ends a session at the backend; whether that succeeds is of no consequence. */
  end(headers: string[]): void
}

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
