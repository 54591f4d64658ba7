import { hash } from 'node:crypto'
import { type BlockList, isIP, isIPv4 } from 'node:net'
import { AUDIT_DATA_BYTES, AUDIT_DELEGATION_DEPTH } from '../../crds/settings/gateway/defaults.ts'
import { isObject } from '../../crds/settings/json.ts'
import type { AuditSettings } from '../config/audit/audit.ts'
import type { AuditEventType } from '../config/audit/event-types.ts'
import { trustedNetworks } from '../config/check/address.ts'
import { withoutCredentials, withoutUrlSecrets } from '../config/check/url.ts'
import type { Caller } from '../identity/caller.ts'
import { uniqueId } from '../server/request-id.ts'
import type { AuditEvent, AuditedRequest, AuditLog, AuditTarget } from './event.ts'
import { LOOK_AHEAD, maskedJson } from './masked-json.ts'

const TRACE_ID = /^[\da-f]{2}-([\da-f]{32})-/
/** The characters of a session digest. They are enough to tell sessions apart. */
const DIGEST = 22
/** The most cached texts of each kind, some hundred bytes each. */
const MOST_KEPT = 1_000

/** Turns each event that the settings select into a line and passes it on. */
export class AuditLines implements AuditLog {
  readonly requestBytes: number
  readonly responseBytes: number
  readonly tellsApplicationErrors: boolean
  readonly #component: string
  readonly #dataBytes: number
  readonly #only: ReadonlySet<string> | undefined
  readonly #without: ReadonlySet<string>
  readonly #trusted: BlockList | undefined
  readonly #subjects: Subjects
  readonly #agents = new KeptTexts(cleanAgent)
  readonly #values = new KeptTexts(cleanedText)
  readonly #digests = new KeptTexts(digestSession)
  #second = -1
  #secondText = ''
  readonly #take: (line: string) => void

  constructor(settings: AuditSettings, component: string, take: (line: string) => void) {
    const { includeRequestData, includeResponseData, maxDataSize = AUDIT_DATA_BYTES } = settings
    this.#component = `,"component":${JSON.stringify(settings.component || component)}`
    this.#subjects = new Subjects(settings.maxDelegationDepth ?? AUDIT_DELEGATION_DEPTH)
    this.#dataBytes = maxDataSize
    this.requestBytes = includeRequestData === true ? maxDataSize : 0
    this.responseBytes = includeResponseData === true && maxDataSize > 0 ? maxDataSize + LOOK_AHEAD : 0
    this.tellsApplicationErrors = settings.detectApplicationErrors ?? true
    this.#only = settings.eventTypes && new Set(settings.eventTypes)
    this.#without = new Set(settings.excludeEventTypes)
    const proxies = settings.trustedProxies ?? []
    this.#trusted = proxies.length === 0 ? undefined : trustedNetworks(proxies)
    this.#take = take
  }

  wants(type: AuditEventType): boolean {
    return !this.#without.has(type) && (this.#only?.has(type) ?? true)
  }

  write(event: AuditEvent): void {
    if (this.wants(event.type)) this.#take(this.#lineOf(event))
  }

  /** Builds the event as JSON with a line feed. It joins cached texts, since most of them repeat. */
  #lineOf(event: AuditEvent): string {
    const { type, outcome, error, request, requestId, caller, client, session, durationMs, target, data } = event
    const subject = caller && this.#subjects.textOf(caller)
    const traceId = readTraceId(event.traceparent)
    let line = `{"level":"audit","time":"${this.#time()}","audit_id":"${uniqueId()}","type":"${type}","outcome":"${outcome}"`
    if (error !== undefined) line += `,"error":${JSON.stringify(error)}`
    line += this.#component
    if (request !== undefined) line += `,"source":${this.#sourceOf(request)}`
    if (subject !== undefined) line += `,"subject":${subject}`
    if (client !== undefined) line += `,"client":${JSON.stringify({ id: cut(client.id), name: cut(client.name) })}`
    if (session !== undefined) line += `,"session":"${this.#digests.get(session)}"`
    if (target !== undefined) line += `,"target":${this.#targetOf(target)}`
    if (requestId !== undefined) line += `,"request_id":${JSON.stringify(requestId)}`
    if (traceId !== undefined) line += `,"trace_id":"${traceId}"`
    if (durationMs !== undefined) line += `,"duration_ms":${Math.round(durationMs * 1000) / 1000}`
    if (data !== undefined) line += `,"data":${JSON.stringify(this.#dataOf(data))}`
    return `${line}}\n`
  }

  /** Returns the time (ISO 8601, milliseconds). What precedes the milliseconds is formatted once a second. */
  #time(): string {
    const now = Date.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#secondText = new Date(now).toISOString().slice(0, -'000Z'.length)
    }
    return `${this.#secondText}${String(now - second * 1000).padStart(3, '0')}Z`
  }

  #sourceOf(request: AuditedRequest): string {
    const address = sourceAddress(request, this.#trusted)
    const agent = cut(request.headers['user-agent'])
    const quoted = address === undefined ? '' : `"address":"${address}"`
    if (agent === undefined) return `{${quoted}}`
    return `{${quoted}${quoted === '' ? '' : ','}"user_agent":${this.#agents.get(agent)}}`
  }

  #targetOf(target: AuditTarget): string {
    let text = ''
    for (const name in target) {
      const value = target[name]
      if (value === undefined) continue
      const shown = typeof value === 'string' ? this.#values.get(value.slice(0, LONGEST_TEXT)) : value
      text += `${text === '' ? '' : ','}"${name}":${shown}`
    }
    return `{${text}}`
  }

  #dataOf({ request, response }: NonNullable<AuditEvent['data']>): object {
    const sent = request === undefined ? undefined : maskedJson(request, this.#dataBytes)
    const answered = response === undefined ? undefined : maskedJson(response, this.#dataBytes)
    // All of the recorded response may be masked, and so written.
    const isMore = response !== undefined && Buffer.byteLength(response) > this.responseBytes
    return {
      request: sent?.text,
      request_cut: sent?.isCut || undefined,
      response: answered?.text,
      response_cut: answered?.isCut || isMore || undefined,
    }
  }
}

/** Returns a digest that tells sessions apart and can't be used as a session id. */
const digestSession = (session: string): string => hash('sha256', session, 'base64url').slice(0, DIGEST)

const cleanAgent = (text: string): string => JSON.stringify(withoutCredentials(text))

const cleanedText = (text: string): string => JSON.stringify(withoutUrlSecrets(withoutCredentials(text)))

const readTraceId = (traceparent: unknown): string | undefined =>
  typeof traceparent === 'string' ? TRACE_ID.exec(traceparent)?.[1] : undefined

/**
 * Caches derived texts by key, and drops all of them once there are too many: a cache that evicts the least recently
 * used took a third of an audited call's line. Keys have a maximum length.
 */
class KeptTexts {
  readonly #make: (key: string) => string
  readonly #texts = new Map<string, string>()

  constructor(make: (key: string) => string) {
    this.#make = make
  }

  get(key: string): string {
    let text = this.#texts.get(key)
    if (text === undefined) {
      if (this.#texts.size >= MOST_KEPT) this.#texts.clear()
      this.#texts.set(key, (text = this.#make(key)))
    }
    return text
  }
}

/** Caches callers as JSON. A caller is one object for as long as its token is known. */
class Subjects {
  readonly #depth: number
  readonly #texts = new WeakMap<Caller, string>()

  constructor(depth: number) {
    this.#depth = depth
  }

  textOf(caller: Caller): string | undefined {
    if (caller.kind === 'anonymous') return undefined
    let text = this.#texts.get(caller)
    if (text === undefined) this.#texts.set(caller, (text = JSON.stringify(buildSubject(caller, this.#depth))))
    return text
  }
}

/** The longest text of a caller that is written, in characters. */
const LONGEST_TEXT = 256

const cut = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, LONGEST_TEXT) : undefined

interface Subject {
  readonly issuer?: string | undefined
  readonly id?: string | undefined
  readonly name?: string | undefined
  readonly client?: string | undefined
  /** The actors on behalf of the subject, the last one first (RFC 8693 section 4.1). */
  readonly delegation?: readonly { readonly issuer?: string | undefined; readonly id?: string | undefined }[]
}

/** Builds the subject of a caller: names from the claims, and at most `depth` links of a delegation chain. */
function buildSubject(caller: Caller, depth: number): Subject | undefined {
  if (caller.kind === 'anonymous') return undefined
  const { claims, issuer, subject } = caller
  const name = claims['name'] ?? claims['preferred_username'] ?? claims['email']
  const client = claims['client_id'] ?? claims['azp']
  const delegation = buildChain(claims['act'], depth)
  return {
    issuer: cut(issuer),
    id: cut(subject),
    name: cut(name),
    client: cut(client),
    ...(delegation.length === 0 ? {} : { delegation }),
  }
}

function buildChain(act: unknown, depth: number) {
  const chain: { issuer: string | undefined; id: string | undefined }[] = []
  let actor = act
  while (isObject(actor) && chain.length < depth) {
    chain.push({ issuer: cut(actor['iss']), id: cut(actor['sub']) })
    actor = actor['act']
  }
  return chain
}

/** The longest X-Forwarded-For that is read, in characters from its end. */
const LONGEST = 2_048

/**
 * Returns the source address: the peer, or behind trusted proxies the last address in X-Forwarded-For that is not one
 * of them, since anybody can write those before it. Undefined if the peer is gone or no proxy is trusted.
 */
export function sourceAddress({ socket, headers }: AuditedRequest, trusted: BlockList | undefined): string | undefined {
  let source = plain(socket.remoteAddress ?? '')
  if (source === undefined || trusted === undefined || !isTrusted(source, trusted)) return source
  const header = headers['x-forwarded-for']
  const hops = (Array.isArray(header) ? header.join() : (header ?? '')).slice(-LONGEST).split(',')
  while (hops.length > 0) {
    const hop = plain((hops.pop() as string).trim())
    // The proxy behind it did not write this: it is not an address.
    if (hop === undefined) break
    source = hop
    if (!isTrusted(hop, trusted)) break
  }
  return source
}

const isTrusted = (address: string, trusted: BlockList): boolean =>
  trusted.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')

/** Normalizes an address: IPv4-mapped IPv6 becomes IPv4, and a zone is removed. */
function plain(text: string): string | undefined {
  if (isIPv4(text)) return text
  const address = (/^::ffff:([\d.]+)$/i.exec(text)?.[1] ?? text).split('%', 1)[0] as string
  return isIP(address) === 0 ? undefined : address
}
