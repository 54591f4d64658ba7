import { createHash, randomUUID } from 'node:crypto'
import type { BlockList } from 'node:net'
import { type AuditSettings, DEFAULT_DATA_BYTES, DEFAULT_DELEGATION_DEPTH } from '../config/audit/audit.ts'
import type { AuditEventType } from '../config/audit/event-types.ts'
import { trustedNetworks } from '../config/audit/trusted-proxies.ts'
import { withoutUrlSecrets } from '../config/url-secrets.ts'
import { withoutCredentials } from '../server/credential-text.ts'
import type { AuditEvent, AuditLog, AuditTarget } from './event.ts'
import { maskedJson } from './masked-json.ts'
import { sourceAddress } from './source-address.ts'
import { cut, subjectOf } from './subject.ts'

const TRACE_ID = /^[\da-f]{2}-([\da-f]{32})-/
/** Characters of a digest that tell sessions apart. */
const DIGEST = 22

/** Makes a line of each event that the settings want, and hands it on. */
export class AuditLines implements AuditLog {
  readonly requestBytes: number
  readonly responseBytes: number
  readonly tellsApplicationErrors: boolean
  readonly #component: string
  readonly #depth: number
  readonly #dataBytes: number
  readonly #only: ReadonlySet<string> | undefined
  readonly #without: ReadonlySet<string>
  readonly #trusted: BlockList
  readonly #take: (line: string) => void

  constructor(settings: AuditSettings, component: string, take: (line: string) => void) {
    const { includeRequestData, includeResponseData, maxDataSize = DEFAULT_DATA_BYTES } = settings
    this.#component = settings.component || component
    this.#depth = settings.maxDelegationDepth ?? DEFAULT_DELEGATION_DEPTH
    this.#dataBytes = maxDataSize
    this.requestBytes = includeRequestData === true ? maxDataSize : 0
    this.responseBytes = includeResponseData === true ? maxDataSize : 0
    this.tellsApplicationErrors = settings.detectApplicationErrors ?? true
    this.#only = settings.eventTypes && new Set(settings.eventTypes)
    this.#without = new Set(settings.excludeEventTypes)
    this.#trusted = trustedNetworks(settings.trustedProxies ?? [])
    this.#take = take
  }

  wants(type: AuditEventType): boolean {
    return !this.#without.has(type) && (this.#only?.has(type) ?? true)
  }

  write(event: AuditEvent): void {
    if (this.wants(event.type)) this.#take(`${JSON.stringify(this.#lineOf(event))}\n`)
  }

  #lineOf(event: AuditEvent): object {
    const { type, outcome, error, request, requestId, caller, client, session, durationMs } = event
    const agent = cut(request?.headers['user-agent'])
    return {
      level: 'audit',
      time: new Date().toISOString(),
      audit_id: randomUUID(),
      type,
      outcome,
      error,
      component: this.#component,
      source: request && {
        address: sourceAddress(request, this.#trusted),
        user_agent: agent && withoutCredentials(agent),
      },
      subject: caller && subjectOf(caller, this.#depth),
      client: client && { id: cut(client.id), name: cut(client.name) },
      session: session === undefined ? undefined : digestOf(session),
      target: event.target && targetOf(event.target),
      request_id: requestId,
      trace_id: TRACE_ID.exec(typeof event.traceparent === 'string' ? event.traceparent : '')?.[1],
      duration_ms: durationMs === undefined ? undefined : Math.round(durationMs * 1000) / 1000,
      data: event.data && this.#dataOf(event.data),
    }
  }

  #dataOf({ request, response }: NonNullable<AuditEvent['data']>): object {
    const sent = request === undefined ? undefined : maskedJson(request, this.#dataBytes)
    const answered = response === undefined ? undefined : maskedJson(response, this.#dataBytes)
    return {
      request: sent?.text,
      request_cut: sent?.isCut || undefined,
      response: answered?.text,
      response_cut: answered?.isCut || undefined,
    }
  }
}

/** Tells sessions apart and lets nobody in. */
const digestOf = (session: string): string => createHash('sha256').update(session).digest('base64url').slice(0, DIGEST)

function targetOf(target: AuditTarget): object {
  return Object.fromEntries(
    Object.entries(target).map(([name, value]) => [
      name,
      typeof value === 'string' ? withoutUrlSecrets(withoutCredentials(cut(value) ?? '')) : value,
    ]),
  )
}
