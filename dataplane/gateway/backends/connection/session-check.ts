import { isObject } from '../../../../crds/settings/json.ts'
import { parseObject } from '../../mcp/parse.ts'
import { isSuccess } from './answer-head.ts'
import type { BackendFailure } from './failure.ts'
import type { BackendAnswer } from './request.ts'

/**
 * What was found of a session: the backend still knows it; it was opened anew; or the backend gave no sign of it and
 * opened no other one.
 */
export type SessionState = 'alive' | 'renewed' | 'lost'

/** What a server without `ping` answers: it has answered. */
const METHOD_NOT_FOUND = -32601
const TOO_MANY = 429
/** Statuses of a request that was refused unread. */
const UNREAD: ReadonlySet<number | undefined> = new Set([400, 401, 404, 410])

/** The codes that JSON-RPC keeps for the protocol and for servers. */
const isReserved = (code: unknown): boolean => typeof code === 'number' && code >= -32768 && code <= -32000

/**
 * Whether a failure may mean that the session is over. Specifications say 404; servers in use say 401, 410, 422, 500,
 * 503, 400 with a text, and 200 with one of several JSON-RPC codes.
 */
export function mayMeanLoss({ status, rpcCode }: BackendFailure): boolean {
  if (status === undefined) return true
  if (!isSuccess(status)) return status !== TOO_MANY
  return rpcCode === undefined || isReserved(rpcCode)
}

/** Whether a request that failed with this HTTP status was refused unread, so that it may be sent once more. */
export const isUnread = ({ status }: BackendFailure): boolean => UNREAD.has(status)

/** Whether the answer to a ping shows that the backend knows the session in which it was sent. */
export function isKnownBy({ status, text }: BackendAnswer): boolean {
  if (!isSuccess(status)) return false
  if (text === '') return true
  const answer = parseObject(text)
  if (answer === undefined) return false
  const { error } = answer
  return error === undefined || (isObject(error) && error['code'] === METHOD_NOT_FOUND)
}
