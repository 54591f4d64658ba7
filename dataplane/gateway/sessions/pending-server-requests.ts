import type { Reservation } from '../../server/budget.ts'
import { PublicError } from '../../server/errors.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { Session } from './session.ts'

interface PendingRequest {
  readonly session: string
  readonly isOnGetStream: boolean
  /** Receives the client's whole JSON-RPC response as text. */
  readonly resolve: (response: string) => void
  readonly reject: (error: PublicError) => void
  readonly timer: NodeJS.Timeout
  readonly reservation: Reservation
}

/** The most open requests of one session and of all sessions. Further requests are refused. */
const MOST_OF_SESSION = 32
const MOST = 10_000
const MOST_NAMES = 8

const ID = /^"portico-([\w-]{1,32})-(\d+)"$/

export interface ServerRequestOptions {
  readonly timeoutMs: number
  /** Sends it on another stream, such as that of its call; absent: it is sent on the client's GET stream. */
  send?(message: string): void
  readonly signal?: AbortSignal
}

/** The number of copies of a request in memory while it waits for its response. */
const REQUEST_COPIES = 4

interface Asked {
  readonly method: string
  /** JSON text. */
  readonly params: string
  /**
   * Sends a message on the client's GET stream. Returns false if none is open. `request`: the id, if the message is a
   * request.
   */
  send(message: string, request?: string): Promise<boolean>
}

/** This replica's requests to clients that wait for responses. A response may arrive at any replica. */
export class PendingServerRequests {
  /** All names that this replica has had, the current one last. */
  #names: readonly string[]
  readonly #open = new Map<string, PendingRequest>()
  /** The number of open requests by session, if any. */
  readonly #counts = new Map<string, number>()
  #count = 0

  constructor(replica: string) {
    this.#names = [replica]
  }

  /** Renames this replica. Requests that were sent under old names still get their responses. */
  rename(replica: string): void {
    this.#names = [...this.#names.filter((name) => name !== replica), replica].slice(-MOST_NAMES)
  }

  /** Tells whether a name is, or was, that of this replica. */
  isOwn(replica: string): boolean {
    return this.#names.includes(replica)
  }

  /** Sends a client a request. Returns its response as text; rejects as `Sessions.request` does. */
  async request(session: Session, { method, params, send }: Asked, options: ServerRequestOptions): Promise<string> {
    const sessionId = session.record.id
    const { id, response } = this.#register(session, params, options)
    const { signal } = options
    const unreachable = () => this.fail(id, sessionId, new PublicError('client_unreachable'))
    const put = (message: string, request?: string) => {
      if (options.send !== undefined) options.send(message)
      else send(message, request).then((isSent) => isSent || unreachable(), unreachable)
    }
    const cancel = () => {
      put(notificationText('notifications/cancelled', { requestId: JSON.parse(id) }))
      unreachable()
    }
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      put(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`, id)
      return await response
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  /**
   * Registers a request; its `id` is JSON text. Throws `client_unreachable` if too many are open, and if the client's
   * share has no room for it.
   */
  #register(of: Session, params: string, { timeoutMs, send }: ServerRequestOptions) {
    const session = of.record.id
    const open = this.#counts.get(session) ?? 0
    if (open >= MOST_OF_SESSION || this.#open.size >= MOST)
      throw new PublicError('client_unreachable', {
        message: 'Too many questions are open at once; answer or cancel some.',
      })
    const reservation = of.reservation(REQUEST_COPIES * params.length)
    this.#counts.set(session, open + 1)
    const id = `"portico-${this.#names.at(-1)}-${++this.#count}"`
    const { promise: response, resolve, reject } = Promise.withResolvers<string>()
    const timer = setTimeout(() => this.fail(id, session, new PublicError('client_timeout')), timeoutMs)
    timer.unref()
    this.#open.set(id, { session, isOnGetStream: send === undefined, resolve, reject, timer, reservation })
    return { id, response }
  }

  /** Passes a response to its request. Only the client that got the request can respond. */
  settle(id: string, session: string, response: string): void {
    this.#take(id, session)?.resolve(response)
  }

  fail(id: string, session: string, error: PublicError): void {
    this.#take(id, session)?.reject(error)
  }

  /** Fails all requests to a session, or those that `which` selects. */
  failAll(session: string, error: PublicError, which: (request: PendingRequest) => boolean = () => true): void {
    for (const [id, request] of this.#open)
      if (request.session === session && which(request)) this.fail(id, session, error)
  }

  #take(id: string, session: string): PendingRequest | undefined {
    const request = this.#open.get(id)
    if (request?.session !== session) return undefined
    clearTimeout(request.timer)
    request.reservation.release()
    this.#open.delete(id)
    const left = (this.#counts.get(session) ?? 1) - 1
    if (left === 0) this.#counts.delete(session)
    else this.#counts.set(session, left)
    return request
  }
}

/** Returns the replica whose request has this id (JSON text); undefined if the id is not from one of our replicas. */
export const readReplica = (id: string): string | undefined => ID.exec(id)?.[1]
