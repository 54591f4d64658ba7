import { AddressRefused } from '../../../net/connect.ts'
import type { ErrorCode } from '../../../server/errors.ts'
import type { MakeLink } from '../../../upstream-tokens/index.ts'

/** Why a backend did not answer as it should. `message` is for the log and the admin listener, never for callers. */
export class BackendFailure extends Error {
  override readonly name = 'BackendFailure'
  readonly code: Extract<ErrorCode, 'backend_failed' | 'backend_unavailable' | 'backend_timeout'>
  /** HTTP status of its answer, where there was one. */
  readonly status: number | undefined
  /** Code of the JSON-RPC error that it answered with, where it did. */
  readonly rpcCode: number | undefined
  /** What callers are told in place of the usual text. */
  readonly text: string | undefined
  /** How the caller gets the credential for want of which it was not asked. */
  readonly link: MakeLink | undefined

  constructor(
    code: BackendFailure['code'],
    message: string,
    options: {
      status?: number
      rpcCode?: number | undefined
      cause?: unknown
      text?: string
      link?: MakeLink | undefined
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.status = options.status
    this.rpcCode = options.rpcCode
    this.text = options.text
    this.link = options.link
  }
}

/** The failure that an error of the connection is. */
export function connectionFailure(error: unknown): BackendFailure {
  if (error instanceof BackendFailure) return error
  if (error instanceof AddressRefused) return refusedAddress(error)
  const { code, message } = error as NodeJS.ErrnoException
  return new BackendFailure('backend_unavailable', code === undefined ? message : `${code}: ${message}`, {
    cause: error,
  })
}

/** Says what would allow it: who configured the address sees nothing else of why there is no answer. */
function refusedAddress(cause: AddressRefused): BackendFailure {
  const remedy = cause.addressClass === 'never' ? '' : ', which is called only under allowPrivateEndpoint'
  return new BackendFailure('backend_unavailable', `${cause.message}${remedy}`, { cause })
}

/** Another stream of the session is open: that of a replica that is about to leave it, or one whose end is not known yet. */
const CONFLICT = 409

/** Whether a refusal with this HTTP status (0: no answer) says nothing of the next attempt. */
export const isPassing = (status: number): boolean =>
  status === 0 || status === CONFLICT || status === 429 || status >= 500
