import { isObject } from '../../../../crds/settings/json.ts'
import { parseObject } from '../../mcp/json.ts'
import type { BackendFailure } from './failure.ts'
import { isSuccess } from './http.ts'
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
/** Codes of errors in a request itself: an unknown method, wrong parameters, a fault in carrying it out. */
const OF_REQUEST: ReadonlySet<unknown> = new Set([METHOD_NOT_FOUND, -32602, -32603])
/** Codes by which servers say at HTTP 200 that a session is over. */
const OF_SESSIONS: ReadonlySet<unknown> = new Set([-32000, -32001, -32600])

/** Tells whether an error code is in the range that JSON-RPC reserves for the protocol and for servers. */
const isReserved = (code: unknown): boolean => typeof code === 'number' && code >= -32768 && code <= -32000

/** Tells whether a request that failed with this HTTP status was refused unread, so that it may be sent once more. */
export const isUnread = ({ status }: BackendFailure): boolean => UNREAD.has(status)

/**
 * The strength of a failure as a sign that the session is over. `none`: it is no sign. `some`: a ping in the last second
 * is sufficient proof of the contrary. `strong`: the next ping is awaited, because the session may have ended after the
 * last one. `unread`: the same, and a server that had no sessions may require them now.
 */
export type Doubt = 'none' | 'some' | 'strong' | 'unread'

/**
 * Returns how far a failure shows that the session is over. By the specification the status is then 404; servers in use
 * also send 401, 410, 422, 500, 503, 400 with a text, and 200 with one of several JSON-RPC codes. `isRepeatable`: the
 * request may be sent once more in the next session, so that waiting is worth it.
 *
 * | HTTP status                      | JSON-RPC code           | doubt     | if repeatable |
 * | -------------------------------- | ----------------------- | --------- | ------------- |
 * | 429                              | any                     | none      | none          |
 * | 400, 401, 404, 410               | none, or not a request's | unread   | unread        |
 * | 400, 401, 404, 410               | of the request          | some      | strong        |
 * | any other but 2xx, and no answer | any                     | some      | strong        |
 * | 2xx                              | -32000, -32001, -32600  | some      | strong        |
 * | 2xx                              | none, or reserved       | some      | some          |
 * | 2xx                              | another                 | none      | none          |
 */
export function rateDoubt({ status, rpcCode, rpcError }: BackendFailure, isRepeatable: boolean): Doubt {
  const likely = isRepeatable ? 'strong' : 'some'
  if (status === TOO_MANY) return 'none'
  if (UNREAD.has(status)) return OF_REQUEST.has(rpcError?.code ?? rpcCode) ? likely : 'unread'
  if (status === undefined || !isSuccess(status) || OF_SESSIONS.has(rpcCode)) return likely
  return rpcCode === undefined || isReserved(rpcCode) ? 'some' : 'none'
}

/** Tells whether the answer to a ping shows that the backend knows the session in which it was sent. */
export function isKnownBy({ status, text }: BackendAnswer): boolean {
  if (!isSuccess(status)) return false
  if (text === '') return true
  const answer = parseObject(text)
  if (answer === undefined) return false
  const { error } = answer
  return error === undefined || (isObject(error) && error['code'] === METHOD_NOT_FOUND)
}
