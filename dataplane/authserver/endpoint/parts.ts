import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Reservation, Share } from '../../server/budget.ts'
import { traceIdOf } from '../../server/log.ts'
import type { Observation, Observe } from '../../telemetry/observe.ts'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { AccountSessions } from '../account/account-sessions.ts'
import type { Links } from '../account/links.ts'
import type { UserKeys } from '../account/user-keys.ts'
import type { RequestRecord } from '../audit/request-record.ts'
import type { ClientAssertions } from '../clients/client-assertion.ts'
import type { Clients } from '../clients/clients.ts'
import type { DelegateClients, MachineClients } from '../clients/configured-clients.ts'
import type { NetworkLimit } from '../clients/network-limit.ts'
import type { SeenKeys } from '../clients/seen-keys.ts'
import type { SpiffeClients } from '../clients/spiffe-clients.ts'
import type { TokenProofs } from '../clients/token-proofs.ts'
import type { ConsentedLogin } from '../login/consented-login.ts'
import type { LoginLinks } from '../login/login-links.ts'
import type { Grants } from '../provider/grants.ts'
import type { Provider } from '../provider/provider.ts'
import type { Revocations } from '../provider/revocations.ts'
import type { Settings } from '../provider/settings.ts'
import type { TrustedIssuers } from '../provider/trusted-issuers.ts'
import type { RecordStore } from '../store/record-store.ts'

/** The parts that the endpoints of an authorization server use. */
export interface EndpointParts {
  /** Name of the gateway, as pages show it. */
  readonly title: string
  readonly settings: Settings
  /** Returns the provider with the current keys. Throws a PublicError `unavailable` while there are none. */
  provider(): Provider
  /** Finds the key of a token that was issued here. Throws a PublicError `unavailable` while there are none. */
  readonly findKey: JWTVerifyGetKey
  readonly store: RecordStore
  readonly clients: Clients
  readonly assertions: ClientAssertions
  readonly seenKeys: SeenKeys
  /** Checks proofs of possession at the token endpoint; undefined if proofs are not read. */
  readonly proofs: TokenProofs | undefined
  readonly spiffe: SpiffeClients
  readonly delegates: DelegateClients
  readonly machines: MachineClients
  readonly trusted: TrustedIssuers
  readonly grants: Grants
  readonly revocations: Revocations
  /** Tells whether a token with these claims has ended early, by a revocation or a change of the configuration. */
  hasEnded(claims: JWTPayload): boolean
  readonly registrations: NetworkLimit
  readonly logins: NetworkLimit
  readonly consents: NetworkLimit
  readonly login: ConsentedLogin
  readonly accounts: AccountSessions
  readonly links: Links
  readonly keys: UserKeys
  readonly loginLinks: LoginLinks
  /** The tokens that providers issued at logins. */
  readonly tokens: UpstreamTokenStore
  /** Returns the client's address, or undefined if the client has disconnected. */
  addressOf(request: IncomingMessage): string | undefined
  readonly audit: Auditing
  readonly observe: Observe
  readonly underWay: RequestsUnderWay
  /** Returns the log of the current request. */
  log(): Logger
}

/** Node's objects of a request, and the share that the request's memory counts in. */
export interface EndpointBindings extends HttpBindings {
  readonly share: Share
}

export interface EndpointEnv {
  Bindings: EndpointBindings
  Variables: {
    /** The memory that this request reserves until it is answered. */
    held: Reservation
    request: RequestUnderWay
    /** The audit record of this request; undefined without an audit log. */
    record: RequestRecord | undefined
    /** Trace context of the request that began the login that this request continues, if it is traced. */
    loginTrace: string | undefined
    /** The grant type of a token request, once it is known to be supported. */
    grantType: string | undefined
    /** The error code that the client receives through its user's browser. */
    error: string | undefined
  }
}

export type EndpointContext = Context<EndpointEnv>

/** A request that is not answered yet. */
class RequestUnderWay {
  /** The request id in the answer, the log and the audit log. */
  readonly id: string
  /** The measurement of this request; undefined if nothing is measured. */
  observation: Observation | undefined
  /** The thumbprint of the key that the client has proven to have (DPoP); tokens of this request are bound to it. */
  proofKey: string | undefined
  readonly #serverLog: Logger
  #log: Logger | undefined

  constructor(id: string, serverLog: Logger) {
    this.id = id
    this.#serverLog = serverLog
  }

  /** Returns the log that carries the ids of the request and its trace; creates it at the first use. */
  log(): Logger {
    this.#log ??= this.#serverLog.child({ requestId: this.id, ...traceIdOf(this.observation?.trace?.traceparent) })
    return this.#log
  }
}

/**
 * The requests that are not answered yet. Logs and measurements of all work for a request belong to it, wherever that
 * work is done. Work that outlasts a request, or serves several, uses the server's log.
 */
export class RequestsUnderWay {
  readonly #storage = new AsyncLocalStorage<RequestUnderWay>()
  readonly #serverLog: Logger

  constructor(serverLog: Logger) {
    this.#serverLog = serverLog
  }

  answer<T>(id: string, answer: (request: RequestUnderWay) => T): T {
    const request = new RequestUnderWay(id, this.#serverLog)
    return this.#storage.run(request, answer, request)
  }

  /** Returns the log of the current request or, outside of requests, the server's log. */
  readonly log = (): Logger => this.#storage.getStore()?.log() ?? this.#serverLog

  /** Returns the thumbprint of the key that the client of the current request has proven to have. */
  readonly proofKey = (): string | undefined => this.#storage.getStore()?.proofKey

  /** The measurement of the current request. */
  get observation(): Observation | undefined {
    return this.#storage.getStore()?.observation
  }
}
