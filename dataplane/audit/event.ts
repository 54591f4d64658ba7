import type { IncomingHttpHeaders } from 'node:http'
import type { AuditEventType } from '../config/audit/event-types.ts'
import type { Caller } from '../identity/caller.ts'

/** How what an event tells of has ended. */
export type AuditOutcome = 'success' | 'denied' | 'failure' | 'application_error'

/** The request that an event tells of, as far as it says where from. Node's own object is one. */
export interface AuditedRequest {
  readonly socket: { readonly remoteAddress?: string | undefined }
  readonly headers: IncomingHttpHeaders
}

/** What is written under `target`: names and ids of what was used, changed or asked for. No value is a secret. */
export type AuditTarget = Readonly<Record<string, string | number | undefined>>

/** One event. Texts may come from callers, they are cut; none of them is a token, a secret or the id of a session. */
export interface AuditEvent {
  readonly type: AuditEventType
  readonly outcome: AuditOutcome
  /** A code that says why it did not succeed. */
  readonly error?: string | undefined
  readonly request?: AuditedRequest | undefined
  readonly requestId?: string | undefined
  /** W3C Trace Context that it belongs to, unchecked. */
  readonly traceparent?: unknown
  readonly durationMs?: number | undefined
  /** Who; absent where that is not known. */
  readonly caller?: Caller | undefined
  /** The client by its own account, or by its id where it has one. */
  readonly client?: { readonly id?: string | undefined; readonly name?: string | undefined } | undefined
  readonly target?: AuditTarget | undefined
  /** Id of the session; its digest is written. */
  readonly session?: string | undefined
  /** JSON texts of what was sent and answered, as they are: they are masked and cut. */
  readonly data?: { readonly request?: string | undefined; readonly response?: string | undefined } | undefined
}

/** Takes events. Who tells it of one never waits, and never fails. */
export interface AuditLog {
  /** Most bytes of a request that are written; 0 where none are. */
  readonly requestBytes: number
  /** Most bytes of an answer that are looked at, which is more than are written: a secret may be cut. 0 where none are. */
  readonly responseBytes: number
  /** Whether a tool's error result is an outcome of its own. */
  readonly tellsApplicationErrors: boolean
  /** Whether events of this name are written: what an event is made of need not be gathered for others. */
  wants(type: AuditEventType): boolean
  write(event: AuditEvent): void
}

/** Where events are told to: undefined while there is no audit log. */
export interface Auditing {
  readonly log: AuditLog | undefined
  /** Why events are not written at the moment; undefined where they are, or where none are to be. */
  readonly problem: string | undefined
}

/** No audit log. */
export const noAudit: Auditing = { log: undefined, problem: undefined }

const DENYING: ReadonlySet<number> = new Set([401, 403, 429])

/** The outcome of what an HTTP status answers. */
export const outcomeOf = (status: number): AuditOutcome =>
  DENYING.has(status) ? 'denied' : status >= 400 ? 'failure' : 'success'
