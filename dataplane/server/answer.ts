import type { Logger } from 'pino'
import { PublicError } from './errors.ts'

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
    // The table gives MCP errors that live in a JSON-RPC answer the status 200; over plain HTTP that is a bad gateway.
    status: status < 400 ? 502 : status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ error: code, message, ...(details === undefined ? {} : { details }) }),
  }
}

export function errorResponse(error: unknown, log?: ErrorLog): Response {
  const { body, ...init } = httpError(error, log)
  return new Response(body, init)
}
