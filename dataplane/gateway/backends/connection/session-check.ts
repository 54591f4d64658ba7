import { isObject } from '../../../../crds/settings/json.ts'
import { parseObject } from '../../mcp/parse.ts'
import { isSuccess } from './answer-head.ts'
import type { BackendFailure } from './failure.ts'
import type { BackendAnswer } from './request.ts'

/**
 * The result of a session check. `alive`: the backend still knows the session. `renewed`: a new session was opened.
 * `lost`: the backend did not show that it knows the session, and opened no other.
 */
export type SessionState = 'alive' | 'renewed' | 'lost'

/** The answer of a server without `ping`, which proves that it is alive. */
export const METHOD_NOT_FOUND = -32601
const TOO_MANY = 429
/** The statuses of a request that the backend refused without processing it. */
const UNREAD: ReadonlySet<number | undefined> = new Set([400, 401, 404, 410])

/** Tells whether an error code is in the range that JSON-RPC reserves for the protocol and for servers. */
const isReserved = (code: unknown): boolean => typeof code === 'number' && code >= -32768 && code <= -32000

/**
 * Tells whether a failure may mean that the session is over. The specification says 404, but servers in use send 401,
 * 410, 422, 500, 503, 400 with a text, or 200 with one of several JSON-RPC codes.
 */
export function mayMeanLoss({ status, rpcCode }: BackendFailure): boolean {
  if (status === undefined) return true
  if (!isSuccess(status)) return status !== TOO_MANY
  return rpcCode === undefined || isReserved(rpcCode)
}

/** Tells whether a request that failed with this status was not processed, so that it may be sent again. */
export const isUnread = ({ status }: BackendFailure): boolean => UNREAD.has(status)

/** Codes with which servers report at HTTP 200 that a session is over. */
const OF_SESSIONS: ReadonlySet<unknown> = new Set([-32000, -32001, -32600])

/** Tells whether a failure more probably than others means that the session is over. */
export const mayMeanEnd = ({ status, rpcCode }: BackendFailure): boolean =>
  status === undefined || !isSuccess(status) || OF_SESSIONS.has(rpcCode)

/** Codes of errors of a request itself: an unknown method, invalid parameters, a failure while it was processed. */
const OF_REQUEST: ReadonlySet<unknown> = new Set([METHOD_NOT_FOUND, -32602, -32603])

/** Tells whether a request was not processed, and not because of an error of its own. */
export const isRefusedUnread = (failure: BackendFailure): boolean =>
  isUnread(failure) && !OF_REQUEST.has(failure.said?.code)

/** Tells whether the answer to a ping shows that the backend knows the session in which it was sent. */
export function isKnownBy({ status, text }: BackendAnswer): boolean {
  if (!isSuccess(status)) return false
  if (text === '') return true
  const answer = parseObject(text)
  if (answer === undefined) return false
  const { error } = answer
  return error === undefined || (isObject(error) && error['code'] === METHOD_NOT_FOUND)
}
