import { decodeJwt, type JWTPayload } from 'jose'
import type { AuditEvent, AuditedRequest, Auditing, AuditTarget } from '../../audit/event.ts'
import type { AuditEventType } from '../../config/audit/event-types.ts'
import { withoutUrlSecrets } from '../../config/url-secrets.ts'
import type { Caller } from '../../identity/caller.ts'
import { withoutCredentials } from '../../server/credential-text.ts'
import type { LoggedInUser, LoginStep, Waypoint } from '../login/login.ts'
import type { Provider } from '../provider/provider.ts'
import { authOutcome, errorOfStatus, GRANTS, LOGINS, OPERATIONS } from './events.ts'

/** What it needs of the server that it came to. */
interface RecordOptions {
  readonly audit: Auditing
  readonly issuer: string
  readonly requestId: string
  provider(): Pick<Provider, 'interaction' | 'refresh'>
}

/** Members of answers that events are made of. Tokens are read for whom they are about, and not written. */
interface Answer {
  readonly error?: string
  readonly access_token?: string
  readonly client_id?: string
  readonly client_name?: string
  readonly redirect_uris?: readonly string[]
}

type Claims = Readonly<Record<string, unknown>>

/**
 * What the audit log is told of one request to the authorization server: it is noted as the endpoints find it out, and told
 * once it is known what is answered. Nothing noted is a token, a code, a secret or the name of a login.
 */
export class RequestRecord {
  readonly #options: RecordOptions
  readonly #request: AuditedRequest
  readonly #startedAt = performance.now()
  /** What the answer ends; undefined: nothing that is told of. */
  #type: AuditEventType | undefined
  #error: string | undefined
  #caller: Caller | undefined
  #client: AuditEvent['client']
  #target: AuditTarget = {}
  #waypoint: Waypoint | undefined
  /** The refresh token that is presented has been replaced before. */
  #isReused = false

  /** @param operation method and path below the issuer */
  constructor(options: RecordOptions, request: AuditedRequest, operation: string) {
    this.#options = options
    this.#request = request
    this.#type = OPERATIONS.get(operation)
  }

  /** A token is asked for by this grant. */
  granting(type: string): void {
    this.#type = GRANTS.get(type) ?? this.#type
  }

  /** The client that asks, by what it calls itself. */
  client(id: string | undefined): void {
    if (id !== undefined) this.#client = { id: plain(id) }
  }

  /** Who a request is about, by the verified claims of a token; `issuer` where they name none. */
  about({ iss = this.#options.issuer, sub, ...claims }: JWTPayload | Claims): void {
    if (typeof sub !== 'string') return
    this.#caller = { kind: 'authenticated', issuer: String(iss), subject: sub, claims: named(claims), expiresAt: 0 }
  }

  /** A refresh token is presented: whose it is, and whether it has been used, can't be said any more once it is refused. */
  async presented(token: string, clientId: string): Promise<void> {
    const found = await this.#options
      .provider()
      .refresh.find(token)
      .catch(() => undefined)
    if (found === undefined || found['clientId'] !== clientId) return
    this.about({ sub: found['accountId'], client_id: clientId })
    this.#isReused = found['consumed'] !== undefined && Number(found['exp']) * 1000 > Date.now()
  }

  /** A revocation has ended this; undefined: nothing. */
  revoked(issued: { readonly kind: string; readonly grant?: string; readonly claims: Claims | undefined } | undefined) {
    const ended = issued === undefined ? 'nothing' : issued.grant === undefined ? 'token' : 'login'
    this.#target = { ended, token: issued?.kind }
    if (issued?.claims !== undefined) this.about(issued.claims)
  }

  /** A client has asked about a token: its claims, where it is told of them. */
  introspected(claims: Claims | undefined): void {
    this.#target = { active: String(claims !== undefined) }
    if (claims !== undefined) this.about(claims)
  }

  /** A client is told of this error before its user is asked anything. */
  refused(error: string | undefined): void {
    this.#error = error
  }

  /** Somebody has come back to a login of theirs. */
  readonly found = (waypoint: Waypoint): void => {
    this.#waypoint = waypoint
  }

  /** A login goes on like this: tells of the step that the request has made, and notes how the login ends, if it does. */
  async step(step: LoginStep): Promise<void> {
    const ends = step.kind === 'done' || step.kind === 'failed' ? step : undefined
    const { provider, purpose, uid }: Partial<Waypoint> = this.#waypoint ?? ends ?? {}
    const asked = purpose === 'authorize' && uid !== undefined ? await this.#asked(uid) : {}
    if (step.kind === 'done') this.#user(step.user)
    const error = step.kind === 'refused' ? 'invalid_request' : ends?.kind === 'failed' ? ends.error : undefined
    if (this.#type === 'oauth_consent') {
      this.#target = asked
      this.#tell(error === 'server_error' ? undefined : error)
    } else if (this.#type === 'oauth_provider_login') {
      this.#target = { provider, purpose }
      this.#tell(error)
    }
    this.#type = ends && LOGINS[ends.purpose]
    this.#error = error
    this.#target = ends?.purpose === 'link' ? { provider } : asked
  }

  /** The client of an authorization request is noted; gives what it asks for. */
  async #asked(uid: string): Promise<AuditTarget> {
    const found = await Promise.resolve()
      .then(() => this.#options.provider().interaction(uid))
      .catch(() => undefined)
    const { client_id: id, scope, resource } = found?.params ?? {}
    if (typeof id === 'string') this.client(id)
    return { scope: text(scope), resource: text(resource) }
  }

  /** Somebody who is signed in at the page of what is linked asks for this; undefined: for nothing that there is. */
  account(user: LoggedInUser, type: AuditEventType | undefined): void {
    this.#type = type
    this.#user(user)
  }

  /** That has ended what a client or provider had. */
  unlinked(ended: { readonly clientId?: unknown; readonly provider?: string } | undefined): void {
    this.client(text(ended?.clientId))
    const isAll = ended !== undefined && ended.clientId === undefined
    this.#target = { provider: ended?.provider, ended: isAll ? 'all' : undefined }
  }

  #user({ subject: sub, name, email }: LoggedInUser): void {
    this.about({ sub, name, email, client_id: this.#client?.id })
  }

  /** Tells of how the request has ended, by its answer. */
  async answered(answer: Response): Promise<void> {
    if (this.#type === undefined) return
    const isJson = answer.headers.get('content-type') === 'application/json'
    const body = isJson ? ((await answer.clone().json()) as Answer) : {}
    // What is told of a token is of the token's client, not of the one that asks.
    if (this.#type !== 'oauth_introspection') this.#read(body)
    const error = this.#error ?? body.error ?? errorOfStatus(answer.status)
    // What the user is asked, and how that ends, is told by itself.
    if (this.#type === 'oauth_authorization' && error === undefined) return
    if (this.#isReused && error === 'invalid_grant') this.#type = 'oauth_refresh_reuse'
    this.#tell(error, answer.status)
  }

  #read({ access_token: token, client_id: id, client_name: name, redirect_uris: uris }: Answer): void {
    if (token !== undefined) {
      const claims = decodeJwt(token)
      this.about(claims)
      this.#target = { scope: text(claims['scope']), audience: text(claims.aud) }
    }
    if (id === undefined) return
    this.#client = { id: plain(id), name: name && plain(name) }
    this.#target = { redirect_uris: uris?.map(withoutQuery).join(' ') }
  }

  #tell(error: string | undefined, status = 400): void {
    if (this.#type === undefined) return
    this.#options.audit.log?.write({
      type: this.#type,
      outcome: authOutcome(error, status),
      error,
      request: this.#request,
      requestId: this.#options.requestId,
      traceparent: this.#request.headers['traceparent'],
      durationMs: performance.now() - this.#startedAt,
      caller: this.#caller,
      client: this.#client,
      target: this.#target,
    })
  }
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const plain = (value: string): string => withoutUrlSecrets(withoutCredentials(value))

/** A redirect URI of an application's own scheme may have no `//`. */
const withoutQuery = (uri: string): string => uri.split(/[?#]/, 1)[0] as string

/** Of claims those that events are made of. */
function named({ name, email, client_id: client, act }: Claims): Claims {
  return { name, email, client_id: typeof client === 'string' ? plain(client) : undefined, act }
}
