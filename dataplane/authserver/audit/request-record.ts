import { decodeJwt, type JWTPayload } from 'jose'
import type { AuditEvent, AuditedRequest, Auditing, AuditTarget } from '../../audit/event.ts'
import type { AuditEventType } from '../../config/audit/event-types.ts'
import { withoutCredentials, withoutUrlSecrets } from '../../config/check/url.ts'
import type { Caller } from '../../identity/caller.ts'
import type { KeyChange } from '../clients/seen-keys.ts'
import type { FlowPosition, LoggedInUser, LoginStep } from '../login/login.ts'
import type { Provider } from '../provider/provider.ts'
import { authOutcome, errorOfStatus, GRANTS, LOGINS, OPERATIONS } from './events.ts'

interface RecordOptions {
  readonly audit: Auditing
  readonly issuer: string
  readonly requestId: string
  provider(): Pick<Provider, 'interaction' | 'refresh'>
}

/** Members of responses that events use. Tokens are read for their subject and never written. */
interface Answer {
  readonly error?: string
  readonly access_token?: string
  readonly client_id?: string
  readonly client_name?: string
  readonly redirect_uris?: readonly string[]
}

type Claims = Readonly<Record<string, unknown>>

/** The facts about an assertion in the audit log. */
interface AssertionFacts {
  readonly reason?: string
  readonly rules?: readonly string[]
  readonly digest?: string
}

/**
 * Collects what the audit log records about one request to the authorization server. The endpoints note facts as they
 * find them. The event is written once the response is known. No note is a token, a code, a secret or the name of a
 * login.
 */
export class RequestRecord {
  readonly #options: RecordOptions
  readonly #request: AuditedRequest
  readonly #startedAt = performance.now()
  /** The type of the event that the response completes; undefined for no event. */
  #type: AuditEventType | undefined
  #error: string | undefined
  #caller: Caller | undefined
  #client: AuditEvent['client']
  #target: AuditTarget = {}
  #assertion: AuditTarget = {}
  #position: FlowPosition | undefined
  /** True if the presented refresh token has been replaced before. */
  #isReused = false

  /** @param operation method and path below the issuer */
  constructor(options: RecordOptions, request: AuditedRequest, operation: string) {
    this.#options = options
    this.#request = request
    this.#type = OPERATIONS.get(operation)
  }

  granting(type: string): void {
    this.#type = GRANTS.get(type) ?? this.#type
  }

  client(id: string | undefined): void {
    if (id !== undefined) this.#client = { id: plain(id) }
  }

  /** Writes a separate event: a client has authenticated with keys that it did not use before. */
  keysChanged(id: string, change: KeyChange): void {
    const { audit, requestId } = this.#options
    audit.log?.write({
      type: 'client_key_changed',
      outcome: 'success',
      request: this.#request,
      requestId,
      traceparent: this.#request.headers['traceparent'],
      client: { id: plain(id) },
      target: { ...change },
    })
  }

  /** Notes the subject of the request from verified claims of a token. `issuer` applies if they name none. */
  about({ iss = this.#options.issuer, sub, ...claims }: JWTPayload | Claims): void {
    if (typeof sub !== 'string') return
    this.#caller = { kind: 'authenticated', issuer: String(iss), subject: sub, claims: named(claims), expiresAt: 0 }
  }

  /**
   * Notes the owner of a presented refresh token and whether it was used before. The store no longer tells either after
   * the token is refused.
   */
  async presented(token: string, clientId: string): Promise<void> {
    const found = await this.#options
      .provider()
      .refresh.find(token)
      .catch(() => undefined)
    if (found === undefined || found['clientId'] !== clientId) return
    this.about({ sub: found['accountId'], client_id: clientId })
    this.#isReused = found['consumed'] !== undefined && Number(found['exp']) * 1000 > Date.now()
  }

  /** Notes what a revocation has ended; undefined for nothing. */
  revoked(issued: { readonly kind: string; readonly grant?: string; readonly claims: Claims | undefined } | undefined) {
    const ended = issued === undefined ? 'nothing' : issued.grant === undefined ? 'token' : 'login'
    this.#target = { ended, token: issued?.kind }
    if (issued?.claims !== undefined) this.about(issued.claims)
  }

  introspected(claims: Claims | undefined): void {
    this.#target = { active: String(claims !== undefined) }
    if (claims !== undefined) this.about(claims)
  }

  /** Notes facts of an assertion: the reason of its refusal, the rules that admit its subject, and its digest. */
  assertion({ reason, rules, digest }: AssertionFacts): void {
    this.#assertion = {
      ...this.#assertion,
      ...(reason !== undefined && { reason: plain(reason) }),
      ...(rules !== undefined && rules.length > 0 && { rule: plain(rules.join(' ')) }),
      ...(digest !== undefined && { jti_digest: digest }),
    }
  }

  /** Notes an error that the client gets before its user is asked. */
  refused(error: string | undefined): void {
    this.#error = error
  }

  /** Notes that a user has returned to their login. */
  readonly found = (position: FlowPosition): void => {
    this.#position = position
  }

  /** Records the login step of this request, and notes how the login ends if it does. */
  async step(step: LoginStep): Promise<void> {
    const ends = step.kind === 'done' || step.kind === 'failed' ? step : undefined
    const { provider, purpose, uid }: Partial<FlowPosition> = this.#position ?? ends ?? {}
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

  /** Notes the client of an authorization request and returns what it asks for. */
  async #asked(uid: string): Promise<AuditTarget> {
    const found = await Promise.resolve()
      .then(() => this.#options.provider().interaction(uid))
      .catch(() => undefined)
    const { client_id: id, scope, resource } = found?.params ?? {}
    if (typeof id === 'string') this.client(id)
    return { scope: text(scope), resource: text(resource) }
  }

  /** Notes the action of a signed-in user on the account page; undefined for an unknown action. */
  account(user: LoggedInUser, type: AuditEventType | undefined): void {
    this.#type = type
    this.#user(user)
  }

  /** Notes that a user has entered a key of their own. The key itself is in no event. */
  key(user: LoggedInUser, type: 'key_set' | 'key_replaced', provider: string): void {
    this.#type = type
    this.#target = { provider }
    this.#user(user)
  }

  /** Notes the client or provider whose access that action has ended. */
  unlinked(ended: { readonly clientId?: unknown; readonly provider?: string } | undefined): void {
    this.client(text(ended?.clientId))
    const isAll = ended !== undefined && ended.clientId === undefined
    this.#target = { provider: ended?.provider, ended: isAll ? 'all' : undefined }
  }

  #user({ subject: sub, name, email }: LoggedInUser): void {
    this.about({ sub, name, email, client_id: this.#client?.id })
  }

  /** Records how the request has ended, by its response. */
  async answered(answer: Response): Promise<void> {
    if (this.#type === undefined) return
    const isJson = answer.headers.get('content-type') === 'application/json'
    const body = isJson ? ((await answer.clone().json()) as Answer) : {}
    // An introspection event names the client that asks, not the token's client.
    if (this.#type !== 'oauth_introspection') this.#read(body)
    const error = this.#error ?? body.error ?? errorOfStatus(answer.status)
    // The consent and its result have events of their own.
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
      target: { ...this.#target, ...this.#assertion },
    })
  }
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const plain = (value: string): string => withoutUrlSecrets(withoutCredentials(value))

/** Removes query and fragment. A redirect URI with the application's own scheme may lack `//`. */
const withoutQuery = (uri: string): string => uri.split(/[?#]/, 1)[0] as string

function named({ name, email, client_id: client, act }: Claims): Claims {
  return { name, email, client_id: typeof client === 'string' ? plain(client) : undefined, act }
}
