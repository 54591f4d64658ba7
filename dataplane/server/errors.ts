import type { Logger } from 'pino'

/** A row of the one table of errors. A code is never reused. `text` is for the caller; the detail goes to the log. */
interface ErrorRow {
  readonly http: number
  /** JSON-RPC code for the MCP endpoint (JSON-RPC 2.0 section 5.1; MCP 2026-07-28). */
  readonly rpc: number
  readonly text: string
}

export const errorTable = {
  parse_error: { http: 400, rpc: -32700, text: 'The body is not valid JSON.' },
  invalid_message: { http: 400, rpc: -32600, text: 'The body is not a JSON-RPC 2.0 message.' },
  method_not_found: { http: 404, rpc: -32601, text: 'This method is not known here.' },
  invalid_params: { http: 400, rpc: -32602, text: 'The parameters are not valid.' },
  unknown_tool: { http: 200, rpc: -32602, text: 'There is no tool of this name.' },
  unknown_prompt: { http: 200, rpc: -32602, text: 'There is no prompt of this name.' },
  unknown_resource: { http: 200, rpc: -32602, text: 'There is no resource of this URI.' },
  /** The same error before 2026-07-28. */
  resource_not_found: { http: 200, rpc: -32002, text: 'There is no resource of this URI.' },
  header_mismatch: { http: 400, rpc: -32020, text: 'A header does not agree with the body.' },
  missing_capability: { http: 400, rpc: -32021, text: 'The client lacks a capability that this call needs.' },
  unsupported_version: { http: 400, rpc: -32022, text: 'This protocol version is not served.' },
  session_required: { http: 400, rpc: -32600, text: 'The Mcp-Session-Id header is missing.' },
  /** Widely used clients initialize a new session on this code alone. */
  session_unknown: { http: 404, rpc: -32001, text: 'There is no such session; initialize a new one.' },
  invalid_request: { http: 400, rpc: -32602, text: 'The request is not valid.' },
  claims_required: { http: 400, rpc: -32602, text: 'Claims are required.' },
  source_required: { http: 400, rpc: -32602, text: 'Several managed sources are visible; name one in `source`.' },
  source_not_managed: { http: 400, rpc: -32602, text: 'Entries can be published to a managed source only.' },
  unauthenticated: { http: 401, rpc: -32600, text: 'A valid bearer token is required.' },
  /** The console's: its cookie is missing, changed or too old. */
  session_ended: { http: 401, rpc: -32600, text: 'The session has ended; log in again.' },
  /** The console's: the token is a valid one of its issuer, and the API server does not accept it. */
  cluster_refused_token: { http: 401, rpc: -32600, text: 'The cluster does not accept this token.' },
  forbidden: { http: 403, rpc: 403, text: 'This is not allowed.' },
  insufficient_scope: { http: 403, rpc: 403, text: 'The token lacks a scope that is needed here.' },
  forbidden_host: { http: 403, rpc: -32600, text: 'This Host or Origin is not served here.' },
  forbidden_role: { http: 403, rpc: 403, text: 'The caller lacks the role for this.' },
  forbidden_claims: { http: 403, rpc: 403, text: 'The caller’s claims do not allow this.' },
  claims_not_subset: { http: 403, rpc: 403, text: 'The claims are not a subset of the caller’s.' },
  read_only: { http: 403, rpc: 403, text: 'This is configured elsewhere and can’t be changed here.' },
  not_found: { http: 404, rpc: -32601, text: 'Not found.' },
  method_not_allowed: { http: 405, rpc: -32600, text: 'This HTTP method is not served here.' },
  not_acceptable: { http: 406, rpc: -32600, text: 'Accept must allow application/json and text/event-stream.' },
  claims_mismatch: { http: 409, rpc: -32602, text: 'The claims differ from those of the first version.' },
  version_exists: { http: 409, rpc: -32602, text: 'This version exists already.' },
  conflict: { http: 409, rpc: -32602, text: 'This conflicts with what is there.' },
  no_managed_source: { http: 409, rpc: -32602, text: 'There is no managed source.' },
  too_large: { http: 413, rpc: -32600, text: 'The body is too large.' },
  unsupported_media_type: { http: 415, rpc: -32600, text: 'Content-Type must be application/json.' },
  share_exceeded: { http: 429, rpc: 429, text: 'Too much is held here for this caller; let some of it end first.' },
  rate_limited: { http: 429, rpc: 429, text: 'Too many requests.' },
  internal: { http: 500, rpc: -32603, text: 'Something went wrong here; the log has it under the request id.' },
  backend_failed: { http: 200, rpc: -32603, text: 'The backend did not answer as it should.' },
  backend_unavailable: { http: 200, rpc: -32603, text: 'The backend can’t be reached.' },
  backend_timeout: { http: 200, rpc: -32603, text: 'The backend did not answer in time.' },
  client_unreachable: { http: 200, rpc: -32603, text: 'The client takes no requests at the moment.' },
  client_timeout: { http: 200, rpc: -32603, text: 'The client did not answer in time.' },
  /** MCP 2025-11-25, elicitation of a URL that a request needs; the URL is in `data.elicitations`. */
  login_needed: { http: 200, rpc: -32042, text: 'You have to log in at a provider first.' },
  answer_lost: {
    http: 200,
    rpc: -32603,
    text: 'The answer is no longer there; the request may have been carried out.',
  },
  /** The console's. */
  cluster_unavailable: { http: 503, rpc: -32603, text: 'The cluster can’t be reached; try again.' },
  unavailable: { http: 503, rpc: -32603, text: 'A part that this needs can’t be reached; try again.' },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof errorTable

export interface ErrorDetail {
  readonly pointer: string
  readonly message: string
}

interface PublicErrorOptions {
  readonly message?: string
  /** Findings in the caller's own input. */
  readonly details?: readonly ErrorDetail[]
  readonly data?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** The only error type that becomes a response. Any other thrown value becomes `internal`. */
export class PublicError extends Error {
  override readonly name = 'PublicError'
  readonly code: ErrorCode
  readonly details: readonly ErrorDetail[] | undefined
  readonly data: unknown
  readonly headers: Readonly<Record<string, string>> | undefined

  constructor(code: ErrorCode, options: PublicErrorOptions = {}) {
    super(options.message ?? errorTable[code].text, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details
    this.data = options.data
    this.headers = options.headers
  }

  get status(): number {
    return errorTable[this.code].http
  }
}

type ErrorLog = Pick<Logger, 'error' | 'debug'>

/** Returns the PublicError for any thrown value. Others become `internal` and are logged under the request id. */
export function publicError(error: unknown, log?: ErrorLog): PublicError {
  if (error instanceof PublicError) {
    if (error.cause !== undefined) log?.debug({ code: error.code, err: error.cause }, 'refused')
    return error
  }
  log?.error({ err: error }, 'a request failed')
  return new PublicError('internal')
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Returns an error as an HTTP answer: `{"error": code, "message", "details"?}`. */
export function httpError(error: unknown, log?: ErrorLog): HttpAnswer {
  const { code, message, details, status, headers } = publicError(error, log)
  return {
    // Errors of a JSON-RPC answer have the status 200 in the table, which is a bad gateway over plain HTTP.
    status: status < 400 ? 502 : status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ error: code, message, ...(details === undefined ? {} : { details }) }),
  }
}

export function errorResponse(error: unknown, log?: ErrorLog): Response {
  const { body, ...init } = httpError(error, log)
  return new Response(body, init)
}
