import { PublicError } from '../../server/errors.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { PendingServerRequests } from './pending-server-requests.ts'
import type { Session } from './session.ts'

/** How a server-to-client request is sent. */
export interface ServerRequestOptions {
  readonly timeoutMs: number
  /** Sends it on another stream, such as that of the call it belongs to; absent: on the client's GET stream. */
  send?(message: string): void
  /** Cancels the request. */
  readonly signal?: AbortSignal
}

/** Copies of a request that are held while it waits for its response. */
const REQUEST_COPIES = 4

/** Sends a client a message on its GET stream; false where it has none open. `request`: the id, where it is a request. */
export type SendMessage = (message: string, request?: string) => Promise<boolean>

interface Sender {
  readonly requests: PendingServerRequests
  readonly session: Session
  readonly send: SendMessage
}

/** Sends a client a request (`params`: JSON text) and gives its whole response as text. Rejects as `Sessions.request` does. */
export async function sendServerRequest(
  { requests, session, send }: Sender,
  { method, params }: { readonly method: string; readonly params: string },
  options: ServerRequestOptions,
): Promise<string> {
  const sessionId = session.record.id
  const isOnGetStream = options.send === undefined
  const hold = () => session.lease(REQUEST_COPIES * params.length)
  const { id, response } = requests.open(sessionId, { timeoutMs: options.timeoutMs, isOnGetStream, hold })
  const { signal } = options
  const unreachable = () => requests.fail(id, sessionId, new PublicError('client_unreachable'))
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
