import { isObject } from '../../../../crds/settings/json.ts'
import { AddressRefused } from '../../../net/connect.ts'
import type { ErrorCode } from '../../../server/errors.ts'
import type { MakeLink } from '../../../upstream-tokens/index.ts'
import { mendError } from '../../mcp/answer-mender.ts'
import { sameId } from '../../mcp/answer-scanner.ts'
import { memberText, parseObject } from '../../mcp/json.ts'

/** A JSON-RPC error of a backend. */
export interface RpcError {
  /** The error as JSON text, in the form of JSON-RPC. */
  readonly error: string
  readonly code: unknown
  /** True if it has the id of the request, so that the backend itself, and no proxy before it, has read the request. */
  readonly isOwn: boolean
}

/** The failure of a request to a backend. `message` is for the log and the admin listener, never for callers. */
export class BackendFailure extends Error {
  override readonly name = 'BackendFailure'
  readonly code: Extract<ErrorCode, 'backend_failed' | 'backend_unavailable' | 'backend_timeout'>
  readonly status: number | undefined
  /** The code of the JSON-RPC error in the answer, if any. */
  readonly rpcCode: number | undefined
  readonly text: string | undefined
  /** The JSON-RPC error that came with an HTTP error status, for callers. */
  readonly rpcError: RpcError | undefined
  /** Creates the link by which the caller obtains the missing credential. */
  readonly link: MakeLink | undefined

  constructor(
    code: BackendFailure['code'],
    message: string,
    options: Partial<Pick<BackendFailure, 'status' | 'rpcCode' | 'cause' | 'text' | 'rpcError' | 'link'>> = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.status = options.status
    this.rpcCode = options.rpcCode
    this.text = options.text
    this.rpcError = options.rpcError
    this.link = options.link
  }
}

/** The failure of a request whose answer has no room in the backend's share of memory. */
export class NoRoom extends BackendFailure {
  constructor() {
    super('backend_failed', 'its answers take too much memory at the moment')
  }
}

export function connectionFailure(error: unknown): BackendFailure {
  if (error instanceof BackendFailure) return error
  if (error instanceof AddressRefused) return refusedAddress(error)
  const { code, message } = error as NodeJS.ErrnoException
  return new BackendFailure('backend_unavailable', code === undefined ? message : `${code}: ${message}`, {
    cause: error,
  })
}

/** Describes a blocked address and the setting that allows it, because the operator has no other sign of the cause. */
function refusedAddress(cause: AddressRefused): BackendFailure {
  const remedy = cause.addressClass === 'never' ? '' : ', which is called only under allowPrivateEndpoint'
  return new BackendFailure('backend_unavailable', `${cause.message}${remedy}`, { cause })
}

/**
 * The status if another stream of the session is open: one of a replica that is about to leave the session, or one
 * whose end is not known yet.
 */
const CONFLICT = 409

/** Tells whether a refusal with this HTTP status (0: no answer) is temporary, so that the next attempt may succeed. */
export const isPassing = (status: number): boolean =>
  status === 0 || status === CONFLICT || status === 429 || status >= 500

/** Reads the JSON-RPC error that a body holds; undefined if it holds none. */
export function findRpcError(body: string): Pick<RpcError, 'error' | 'code'> | undefined {
  const message = parseObject(body)
  if (!isObject(message?.['error'])) return undefined
  return { code: message['error']['code'], error: mendError(memberText(body, 'error') as string) }
}

const NONE: ReadonlySet<unknown> = new Set()

/**
 * Reads the JSON-RPC error that came with an HTTP status for the request with this id (JSON text). Errors with the codes
 * `without` are not for callers.
 */
export function readRpcError(body: string, sentId: string | undefined, without = NONE): RpcError | undefined {
  const found = findRpcError(body)
  if (found === undefined || sentId === undefined || without.has(found.code)) return undefined
  return { ...found, isOwn: sameId(memberText(body, 'id'), sentId) }
}
