import type { IncomingMessage } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Reservation, Share } from '../../server/budget.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { AccountSessions } from '../account/account-sessions.ts'
import type { Links } from '../account/links.ts'
import type { UserKeys } from '../account/user-keys.ts'
import type { RequestRecord } from '../audit/request-record.ts'
import type { ClientAssertions } from '../clients/client-assertion.ts'
import type { Clients } from '../clients/clients.ts'
import type { DelegateClients } from '../clients/delegate-clients.ts'
import type { MachineClients } from '../clients/machine-clients.ts'
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
import type { RequestsUnderWay, RequestUnderWay } from './under-way.ts'

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
  /** Authenticates clients by their assertions. */
  readonly assertions: ClientAssertions
  /** Detects that a client authenticates with changed keys. */
  readonly seenKeys: SeenKeys
  /** Checks proofs of possession at the token endpoint; undefined if proofs are not read. */
  readonly proofs: TokenProofs | undefined
  /** Authenticates SPIFFE workloads. */
  readonly spiffe: SpiffeClients
  /** The clients that may exchange tokens. */
  readonly delegates: DelegateClients
  /** The clients that get tokens for themselves. */
  readonly machines: MachineClients
  /** The external issuers whose tokens are accepted. */
  readonly trusted: TrustedIssuers
  readonly grants: Grants
  readonly revocations: Revocations
  /** Tells whether a token with these claims has ended early, by a revocation or a change of the configuration. */
  hasEnded(claims: JWTPayload): boolean
  readonly registrations: NetworkLimit
  readonly logins: NetworkLimit
  readonly consents: NetworkLimit
  readonly login: ConsentedLogin
  /** Sessions of the account page. */
  readonly accounts: AccountSessions
  readonly links: Links
  /** The keys that users have entered. */
  readonly keys: UserKeys
  /** Links by which users log in at a provider after the first login. */
  readonly loginLinks: LoginLinks
  /** The tokens that providers issued at logins. */
  readonly tokens: UpstreamTokenStore
  /** Returns the client's address, or undefined if the client has disconnected. */
  addressOf(request: IncomingMessage): string | undefined
  /** Records requests while there is an audit log. */
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
