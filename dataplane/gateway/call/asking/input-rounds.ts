import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../crds/shared/json.ts'
import { PublicError } from '../../../server/errors.ts'
import { editObject, Members, memberText, paramsText, skipSpace } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { withParams } from '../../mcp/rewrite.ts'
import type { Session } from '../../sessions/sessions.ts'
import { ASK_MS, type ClientAsker, canBeAsked, capabilityFor } from './client-ask.ts'

/** How often one call may come back for more. */
export const MOST_ROUNDS = 8

/** What a modern backend needs before it answers: members of its result, as JSON text. */
export interface InputRequired {
  readonly requests: string | undefined
  readonly state: string | undefined
}

/** What an answer (its bytes as Latin-1) asks for; undefined where it is an answer indeed. */
export function inputRequiredBy(answer: Buffer): InputRequired | undefined {
  if (!answer.includes('input_required')) return undefined
  const result = memberText(answer.toString('utf8'), 'result')
  if (result === undefined || memberText(result, 'resultType') !== '"input_required"') return undefined
  return { requests: memberText(result, 'inputRequests'), state: memberText(result, 'requestState') }
}

interface InputAsk {
  readonly sessions: ClientAsker
  readonly session: Session
  say(message: string): void
  readonly signal: AbortSignal
}

/**
 * Asks a legacy client for all that a modern backend needs, and gives the request with the answers in it. Rejects with
 * a PublicError where the client has not declared that it can be asked, or answers with an error.
 */
export async function withInputs(message: Message, needed: InputRequired, ask: InputAsk): Promise<Message> {
  const asked: Promise<string>[] = []
  const requests = new Members(needed.requests ?? '{}', skipSpace(needed.requests ?? '{}', 0))
  while (requests.next()) {
    const { key, value } = requests
    asked.push(answerOf(value, ask).then((result) => `${JSON.stringify(key)}:${result}`))
  }
  const responses = await Promise.all(asked)
  const { text, paramsStart, paramsEnd } = message
  const params = editObject(text.slice(paramsStart, paramsEnd), {
    inputResponses: responses.length === 0 ? undefined : `{${responses.join(',')}}`,
    requestState: needed.state,
  })
  return withParams(message, params)
}

/** Before 2026-07-28 a visit to a URL has an id by which its end is told; nobody will tell it here. */
function asLegacy(request: string, { mode, elicitationId }: Readonly<Record<string, unknown>>): string {
  const params = paramsText(request)
  const lacksId = mode === 'url' && elicitationId === undefined
  return lacksId ? editObject(params, { elicitationId: JSON.stringify(randomUUID()) }) : params
}

/** Puts one request (JSON text) to the client and gives the result of its response as JSON text. */
async function answerOf(request: string, { sessions, session, say, signal }: InputAsk): Promise<string> {
  const value: unknown = JSON.parse(request)
  const { method, params: given } = isObject(value) ? value : {}
  const params = isObject(given) ? given : {}
  const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
  if (needed === undefined || !canBeAsked(JSON.parse(session.record.capabilities), needed))
    throw new PublicError('missing_capability', {
      message: 'The backend asks for something that this client can’t be asked.',
    })
  const response = await sessions.request(session, method as string, asLegacy(request, params), {
    timeoutMs: ASK_MS,
    send: say,
    signal,
  })
  const result = memberText(response, 'result')
  if (result === undefined)
    throw new PublicError('client_unreachable', { message: 'The client refused what the backend asks for.' })
  return result
}
