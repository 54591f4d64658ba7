import type { IncomingHttpHeaders } from 'node:http'
import type { AuditEventType } from '../config/audit/event-types.ts'
import type { Caller } from '../identity/caller.ts'

/** The outcome of the operation that an event reports. */
export type AuditOutcome = 'success' | 'denied' | 'failure' | 'application_error'

/** The request that an event reports, as far as it shows its source. Node's request object fits. */
export interface AuditedRequest {
  readonly socket: { readonly remoteAddress?: string | undefined }
  readonly headers: IncomingHttpHeaders
}

/** The names and ids of what was used, changed or requested, written under `target`. No value is a secret. */
export type AuditTarget = Readonly<Record<string, string | number | undefined>>

/** One event. Texts may come from callers and are cut. None is a token, a secret or a session id. */
export interface AuditEvent {
  readonly type: AuditEventType
  readonly outcome: AuditOutcome
  readonly error?: string | undefined
  readonly request?: AuditedRequest | undefined
  readonly requestId?: string | undefined
  readonly traceparent?: unknown
  readonly durationMs?: number | undefined
  readonly caller?: Caller | undefined
  /** The client, by its id or the name that it reports. */
  readonly client?: { readonly id?: string | undefined; readonly name?: string | undefined } | undefined
  readonly target?: AuditTarget | undefined
  /** The id of the session; the log holds its digest. */
  readonly session?: string | undefined
  /** The JSON texts of the request and the response. The log masks and cuts them. */
  readonly data?: { readonly request?: string | undefined; readonly response?: string | undefined } | undefined
}

export interface AuditLog {
  readonly requestBytes: number
  /** The most bytes of a response that are read; 0 for none. More are read than written, since a secret may be cut. */
  readonly responseBytes: number
  /** Tells whether a tool's error result is an outcome of its own. */
  readonly tellsApplicationErrors: boolean
  /** Tells whether events of this type are written, so that callers gather data only for those. */
  wants(type: AuditEventType): boolean
  write(event: AuditEvent): void
}

export interface Auditing {
  readonly log: AuditLog | undefined
  /** The reason why events can't be written at the moment; undefined while they can, or while auditing is off. */
  readonly problem: string | undefined
}

export const noAudit: Auditing = { log: undefined, problem: undefined }

const DENYING: ReadonlySet<number> = new Set([401, 403, 429])

/** Returns the outcome for an HTTP status. */
export const classifyStatus = (status: number): AuditOutcome =>
  DENYING.has(status) ? 'denied' : status >= 400 ? 'failure' : 'success'
