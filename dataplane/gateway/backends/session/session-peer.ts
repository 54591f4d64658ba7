import type { Logger } from 'pino'
import type { Credential } from '../../../credentials/index.ts'
import type { Share } from '../../../server/budget.ts'
import type { BackendHeaders, CallerHeaders } from '../connection/headers.ts'
import type { Transport } from '../connection/http.ts'
import type { BackendAnswer, BackendRequest } from '../connection/request.ts'

/** The gateway's `clientInfo`. */
export interface Implementation {
  readonly name: string
  readonly version: string
}

/** One of the gateway's own messages. */
export type OwnPost = Pick<
  BackendRequest,
  'headers' | 'onHead' | 'onRequest' | 'onAccepted' | 'isAnswerless' | 'isInSession'
> & {
  readonly body: string
  /** A timeout shorter than the usual one. */
  readonly timeoutMs?: number
}

/** The part of a backend that its streams use. */
export interface StreamPeer {
  readonly url: URL
  readonly path: string
  /** Records a redirect to this path, for later requests. */
  moved(path: string): void
  readonly dispatcher: Transport
  readonly log: Logger
  /** The backend's share of memory. */
  readonly share: Share
  /** True once it is closed for good. */
  readonly closed: boolean
  /** The credential of the one caller that the backend is for; undefined if it is for all callers. */
  readonly caller?: Pick<CallerHeaders, 'isFinal' | 'credential' | 'needed' | 'renewed'> | undefined
}

/** The part of a backend that its sessions use. */
export interface SessionPeer extends StreamPeer {
  readonly name: string
  readonly client: Implementation
  readonly headers: BackendHeaders
  /** True if the backend uses the modern era, so that opening a session is only an attempt. */
  readonly isModern: boolean
  /** The timeout of such an attempt in milliseconds. */
  readonly tryTimeoutMs: number
  /** Returns the capabilities of the gateway's own session, so that equal ones are stored once. */
  capabilitiesFor(session: object): Readonly<Record<string, unknown>> | undefined
  /** Stores its `instructions`; undefined if it has none. */
  instructed(text: string | undefined): void
  /** Sends one of the gateway's own messages. Rejects with a BackendFailure. */
  post(request: OwnPost): Promise<BackendAnswer>
  /** True if clients see only approved definitions, so that the backend's own change notifications are not relayed. */
  readonly needsApproval: boolean
  /** Tells whether a resource is withheld. */
  withholds(uri: string): boolean
  /** True if it has answered a request on a session's stream. Each session then opens its stream before a call. */
  answersOnStreams: boolean
  /** Refreshes the lists after a change notification. */
  refreshLists(): void
  /** True if its lists may differ between sessions. */
  readonly mayShowBySession?: boolean
  /** True if each session has its own stream, which stays open after the server has lost the session. */
  readonly hasStreamSessions?: boolean
  /** Ends a session at the backend. The outcome does not matter. */
  end(headers: string[]): void
}

const UNAUTHORIZED = 401

/**
 * The credential for opening a stream of a caller's own backend. A stream outlives credentials, so when it is reopened,
 * perhaps at another replica, there may be no valid credential.
 */
export class StreamCredential {
  readonly #peer: StreamPeer
  #hasRenewed = false
  /** The credential with which the stream was last opened. */
  #sent: Credential | undefined

  constructor(peer: StreamPeer) {
    this.#peer = peer
  }

  /**
   * Calls `open` when a credential is available or not needed, at once if it is so already. Calls `failed` if none can
   * be obtained, or if `open` throws.
   */
  open(open: () => void, failed: () => void): void {
    const { caller } = this.#peer
    const send = () => {
      this.#sent = caller?.credential
      open()
    }
    const needed = caller?.needed()
    if (needed !== undefined) {
      needed.then(send).catch(failed)
      return
    }
    try {
      send()
    } catch {
      failed()
    }
  }

  /**
   * Obtains another credential if the backend has refused the stream's credential with this HTTP status, once until a
   * stream has begun. Returns undefined if another credential would not help. Rejects if none can be obtained.
   */
  renewed(refused: number | undefined): Promise<unknown> | undefined {
    const { caller } = this.#peer
    if (refused !== UNAUTHORIZED || caller === undefined || caller.isFinal || this.#hasRenewed) return undefined
    this.#hasRenewed = true
    return caller.renewed(this.#sent)
  }

  /** Records that a stream has begun, which shows that its credential is valid. */
  begun(): void {
    this.#hasRenewed = false
  }
}
