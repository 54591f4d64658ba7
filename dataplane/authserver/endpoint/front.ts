import type { IncomingMessage } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { JWTVerifyGetKey } from 'jose'
import type { Logger } from 'pino'
import type { Auditing } from '../../audit/event.ts'
import type { Lease, Share } from '../../server/budget.ts'
import type { Observe } from '../../telemetry/observe.ts'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { AccountSessions } from '../account/account-sessions.ts'
import type { Links } from '../account/links.ts'
import type { RequestRecord } from '../audit/request-record.ts'
import type { ClientAssertions } from '../clients/client-assertion.ts'
import type { Clients } from '../clients/clients.ts'
import type { DelegateClients } from '../clients/delegate-clients.ts'
import type { NetworkLimit } from '../clients/network-limit.ts'
import type { ConsentedLogin } from '../login/consented-login.ts'
import type { LoginLinks } from '../login/login-links.ts'
import type { Grants } from '../provider/grants.ts'
import type { Provider } from '../provider/provider.ts'
import type { Revocations } from '../provider/revocations.ts'
import type { Settings } from '../provider/settings.ts'
import type { TrustedIssuers } from '../provider/trusted-issuers.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { RequestsUnderWay, RequestUnderWay } from './under-way.ts'

/** What the endpoints of an authorization server work with. */
export interface Front {
  /** Name of the gateway, for people. */
  readonly title: string
  readonly settings: Settings
  /** With the keys as they are now. Throws a PublicError `unavailable` while there are none. */
  provider(): Provider
  /** The key of a token that was issued here; throws a PublicError `unavailable` while there are none. */
  readonly findKey: JWTVerifyGetKey
  readonly store: RecordStore
  readonly clients: Clients
  /** By which clients authenticate that have keys. */
  readonly assertions: ClientAssertions
  /** The clients that may exchange tokens. */
  readonly delegates: DelegateClients
  /** The issuers outside whose tokens count for something. */
  readonly trusted: TrustedIssuers
  readonly grants: Grants
  readonly revocations: Revocations
  readonly registrations: NetworkLimit
  readonly logins: NetworkLimit
  readonly consents: NetworkLimit
  readonly login: ConsentedLogin
  /** People who look at what is linked to them, and what that is. */
  readonly accounts: AccountSessions
  readonly links: Links
  /** Has users log in at providers later. */
  readonly loginLinks: LoginLinks
  /** What providers gave at logins. */
  readonly tokens: UpstreamTokenStore
  /** Where a request comes from; undefined where its client has gone. */
  addressOf(request: IncomingMessage): string | undefined
  /** Where requests are told to, while there is an audit log. */
  readonly audit: Auditing
  readonly observe: Observe
  readonly underWay: RequestsUnderWay
  /** Log of the request that is answered. */
  log(): Logger
}

/** What a request comes with: Node's objects, and whose share what it makes the process hold counts in. */
export interface FrontBindings extends HttpBindings {
  readonly share: Share
}

export interface FrontEnv {
  Bindings: FrontBindings
  Variables: {
    /** What this request holds until it is answered. */
    held: Lease
    request: RequestUnderWay
    /** What the audit log is told of this request; undefined where there is none. */
    record: RequestRecord | undefined
    /** Trace context of the request that began the login which this one goes on with, where that is traced. */
    loginTrace: string | undefined
    /** What a client asks for tokens by, once that is known to be something that there is. */
    grantType: string | undefined
    /** The code that a client is told by way of its user's browser. */
    error: string | undefined
  }
}

export type FrontContext = Context<FrontEnv>
