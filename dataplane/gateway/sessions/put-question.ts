import { PublicError } from '../../server/errors.ts'
import { notificationText } from '../mcp/rpc-text.ts'
import type { Asks } from './asks.ts'
import type { Session } from './session.ts'

/** How a question is put to a client. */
export interface AskOptions {
  readonly timeoutMs: number
  /** Says it on a stream that is at hand, such as that of the call it belongs to; absent: on the client's GET stream. */
  say?(message: string): void
  /** Takes the question back. */
  readonly signal?: AbortSignal
}

/** Copies of a question that are there while its answer is waited for. */
const ASK_COPIES = 4

/** Tells a client something on its GET stream; false where it listens nowhere. `ask` names a question that waits. */
export type Say = (message: string, ask?: string) => Promise<boolean>

interface Asking {
  readonly asks: Asks
  readonly session: Session
  readonly say: Say
}

/** Asks a client something (`params`: JSON text) and gives its whole response as text. Rejects as `Sessions.ask` says. */
export async function putQuestion(
  { asks, session, say }: Asking,
  { method, params }: { readonly method: string; readonly params: string },
  options: AskOptions,
): Promise<string> {
  const sessionId = session.record.id
  const onStream = options.say === undefined
  const hold = () => session.lease(ASK_COPIES * params.length)
  const { id, answer } = asks.open(sessionId, { timeoutMs: options.timeoutMs, onStream, hold })
  const { signal } = options
  const unreachable = () => asks.fail(id, sessionId, new PublicError('client_unreachable'))
  const put = (message: string, ask?: string) => {
    if (options.say !== undefined) options.say(message)
    else say(message, ask).then((isHeard) => isHeard || unreachable(), unreachable)
  }
  const takeBack = () => {
    put(notificationText('notifications/cancelled', { requestId: JSON.parse(id) }))
    unreachable()
  }
  signal?.addEventListener('abort', takeBack, { once: true })
  try {
    put(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}`, id)
    return await answer
  } finally {
    signal?.removeEventListener('abort', takeBack)
  }
}
