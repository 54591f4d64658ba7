import type { Logger } from 'pino'
import { PublicError } from './errors.ts'

type ErrorLog = Pick<Logger, 'error' | 'debug'>

/**
 * Returns the PublicError for any thrown value. A PublicError is returned as it is; everything else becomes `internal`
 * and is logged under the request id.
 */
export function publicError(error: unknown, log?: ErrorLog): PublicError {
  if (error instanceof PublicError) {
    if (error.cause !== undefined) log?.debug({ code: error.code, err: error.cause }, 'refused')
    return error
  }
  log?.error({ err: error }, 'a request failed')
  return new PublicError('internal')
}

/** An HTTP answer before it is written. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * Returns an error as an HTTP answer: `{"error": code, "message", "details"?}` with the status and headers of the
 * table.
 */
export function httpError(error: unknown, log?: ErrorLog): HttpAnswer {
  const { code, message, details, status, headers } = publicError(error, log)
  return {
    // The table gives MCP errors that live in a JSON-RPC answer the status 200; over plain HTTP that is a bad gateway.
    status: status < 400 ? 502 : status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ error: code, message, ...(details === undefined ? {} : { details }) }),
  }
}

/** Returns an error as a web Response. */
export function errorResponse(error: unknown, log?: ErrorLog): Response {
  const { body, ...init } = httpError(error, log)
  return new Response(body, init)
}
