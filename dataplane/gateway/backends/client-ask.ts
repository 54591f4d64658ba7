import type { Gateway } from '../gateway.ts'
import { editObject } from '../mcp/json.ts'
import { isObject } from '../mcp/message.ts'
import type { Session } from '../sessions/sessions.ts'
import type { Link } from './link.ts'

/** How long a client, and the person before it, has to answer. */
export const ASK_MS = 600_000

/** The capability that a client must have declared to be asked this. */
export const askable: Readonly<Record<string, 'elicitation' | 'sampling' | 'roots'>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Whether a client that declared these capabilities can be asked this. */
export function canBeAsked(capabilities: unknown, method: string): boolean {
  const capability = Object.hasOwn(askable, method) ? askable[method] : undefined
  return capability !== undefined && isObject(capabilities) && isObject(capabilities[capability])
}

/** Whether a client that declared these capabilities can be asked anything at all. */
export const canBeAskedAny = (capabilities: unknown): boolean =>
  isObject(capabilities) && Object.values(askable).some((capability) => isObject(capabilities[capability]))

/** What of a client's capabilities is declared to backends: what we relay. JSON text. */
export function declaredOf(capabilities: unknown): string {
  const relayed = isObject(capabilities) ? capabilities : {}
  const { elicitation, sampling, roots } = relayed
  return JSON.stringify({ elicitation, sampling, roots })
}

export interface ClientAsk {
  readonly gateway: Gateway
  readonly session: Session
  readonly link: Link
  /** Where the question is put; absent: on the client's GET stream. */
  say?(message: string): void
  readonly signal?: AbortSignal
}

/**
 * Puts a legacy backend's question to the legacy client of a session and the answer to the backend; `id` is the
 * question's on the backend's hop, as JSON text. The backend always gets an answer.
 */
export async function relayAsk(ask: ClientAsk, id: string, question: Record<string, unknown>): Promise<void> {
  const { gateway, session, link, say, signal } = ask
  const { method, params } = question
  if (typeof method !== 'string' || !canBeAsked(JSON.parse(session.record.capabilities), method)) {
    link.answer(String(method), id)
    return
  }
  try {
    const response = await gateway.sessions.ask(session, method, isObject(params) ? params : {}, {
      timeoutMs: ASK_MS,
      ...(say === undefined ? {} : { say }),
      ...(signal === undefined ? {} : { signal }),
    })
    link.send(editObject(response, { id }))
  } catch (error) {
    const { message } = error as Error
    link.send(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code: -32603, message })}}`)
  }
}
