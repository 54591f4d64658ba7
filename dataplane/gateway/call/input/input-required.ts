import { randomUUID } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'
import { PublicError } from '../../../server/errors.ts'
import { editObject, Members, memberText, paramsText, skipSpace } from '../../mcp/json.ts'
import type { Message } from '../../mcp/message.ts'
import { withParams } from '../../mcp/rewrite.ts'
import type { Session } from '../../sessions/sessions.ts'
import { CLIENT_TIMEOUT_MS, type ClientRequester, capabilityFor, hasCapabilities } from './server-request.ts'

/** The most rounds of input that a backend may require for one call. */
export const MOST_ROUNDS = 8

/** The input that a modern backend requires before it answers: members of its result, as JSON text. */
export interface InputRequired {
  readonly requests: string | undefined
  readonly state: string | undefined
}

/** Returns the input that an answer requires; undefined if the answer is final. */
export function inputRequiredBy(answer: Buffer): InputRequired | undefined {
  if (!answer.includes('input_required')) return undefined
  const result = memberText(answer.toString('utf8'), 'result')
  if (result === undefined || memberText(result, 'resultType') !== '"input_required"') return undefined
  return { requests: memberText(result, 'inputRequests'), state: memberText(result, 'requestState') }
}

interface InputServices {
  readonly sessions: ClientRequester
  readonly session: Session
  say(message: string): void
  readonly signal: AbortSignal
}

/**
 * Sends a legacy client all requests of a modern backend and returns the call's request with the responses in it.
 * Rejects with a PublicError if the client has not declared a needed capability or responds with an error.
 */
export async function withInputs(message: Message, required: InputRequired, services: InputServices): Promise<Message> {
  const pending: Promise<string>[] = []
  const requests = new Members(required.requests ?? '{}', skipSpace(required.requests ?? '{}', 0))
  while (requests.next()) {
    const { key, value } = requests
    pending.push(requestInput(value, services).then((result) => `${JSON.stringify(key)}:${result}`))
  }
  const responses = await Promise.all(pending)
  const { text, paramsStart, paramsEnd } = message
  const params = editObject(text.slice(paramsStart, paramsEnd), {
    inputResponses: responses.length === 0 ? undefined : `{${responses.join(',')}}`,
    requestState: required.state,
  })
  return withParams(message, params)
}

/**
 * Before 2026-07-28 a URL elicitation had an id for a notification of its completion, which the gateway never sends.
 */
function asLegacy(request: string, { mode, elicitationId }: Readonly<Record<string, unknown>>): string {
  const params = paramsText(request)
  const lacksId = mode === 'url' && elicitationId === undefined
  return lacksId ? editObject(params, { elicitationId: JSON.stringify(randomUUID()) }) : params
}

/** Sends one request (JSON text) to the client and returns the result of its response as JSON text. */
async function requestInput(request: string, { sessions, session, say, signal }: InputServices): Promise<string> {
  const value: unknown = JSON.parse(request)
  const { method, params: given } = isObject(value) ? value : {}
  const params = isObject(given) ? given : {}
  const needed = typeof method === 'string' ? capabilityFor(method, params) : undefined
  if (needed === undefined || !hasCapabilities(JSON.parse(session.record.capabilities), needed))
    throw new PublicError('missing_capability', {
      message: 'The backend asks for something that this client does not support.',
    })
  const response = await sessions.request(session, method as string, asLegacy(request, params), {
    timeoutMs: CLIENT_TIMEOUT_MS,
    send: say,
    signal,
  })
  const result = memberText(response, 'result')
  if (result === undefined)
    throw new PublicError('client_unreachable', { message: 'The client refused the backend’s question.' })
  return result
}
