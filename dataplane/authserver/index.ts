import type { IncomingMessage } from 'node:http'
import { createLocalJWKSet } from 'jose'
import type { Logger } from 'pino'
import type { Auditing } from '../audit/event.ts'
import type { AuthServerConfig } from '../config/auth-server.ts'
import { isIdentified, primaryOf } from '../config/authserver/provider.ts'
import { isLoopback } from '../config/check/url.ts'
import type { AuthServerStatus } from '../config/status.ts'
import type { LocalIssuer } from '../identity/index.ts'
import { PublicError } from '../server/errors.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { UpstreamTokenStore } from '../upstream-tokens/index.ts'
import { createAccountSessions } from './account/account-sessions.ts'
import { createLinks } from './account/links.ts'
import { ClientAssertions } from './clients/client-assertion.ts'
import { ClientDocuments } from './clients/client-documents.ts'
import { ClientKeys } from './clients/client-keys.ts'
import { type Clients, createClients } from './clients/clients.ts'
import { DelegateClients } from './clients/delegate-clients.ts'
import { NetworkLimit } from './clients/network-limit.ts'
import { authServerApp, isServed } from './endpoint/app.ts'
import type { Front, FrontBindings } from './endpoint/front.ts'
import { RequestsUnderWay } from './endpoint/under-way.ts'
import { type Ground, type GroundOptions, groundOf } from './ground.ts'
import type { KeyMaterial } from './keys/key-files.ts'
import type { KeyedHash } from './keys/keyed-hash.ts'
import { CarriedTokens } from './login/carried-tokens.ts'
import type { ConsentedLogin } from './login/consented-login.ts'
import type { LoginLinks } from './login/login-links.ts'
import { openLogins } from './login/open-logins.ts'
import { TokenRefresh } from './login/token-refresh.ts'
import { openUpstreams } from './login/upstream/open-upstreams.ts'
import type { ObserveProvider } from './login/upstream/watched-upstream.ts'
import { createGrants, type Grants } from './provider/grants.ts'
import { createProvider, type Provider } from './provider/provider.ts'
import { Revocations } from './provider/revocations.ts'
import { type OwnResource, type Settings, settingsOf } from './provider/settings.ts'
import { TrustedIssuers } from './provider/trusted-issuers.ts'
import { statusOf } from './status.ts'
import type { RecordStore } from './store/record-store.ts'

export type { OwnResource } from './provider/settings.ts'

/** Logins that one network may ask for, and consents that it may give. */
const LOGINS = { burst: 100, eachMs: 100 }

/** Clocks of those who check access tokens differ by so much at most. */
const SKEW_S = 60

export interface AuthServerOptions extends GroundOptions {
  readonly own: OwnResource
  addressOf(request: IncomingMessage): string | undefined
  readonly audit: Auditing
  readonly observe: Observe
}

/** The embedded authorization server of one gateway. */
export interface AuthServer {
  /** Checks its tokens in this process. */
  readonly local: LocalIssuer
  /** What providers gave users at login. */
  readonly tokens: UpstreamTokenStore
  /** Has the provider give others in their place. */
  readonly refresh: TokenRefresh
  /** Has users log in at providers later. */
  readonly loginLinks: LoginLinks
  /** Whether a path is one of its own. */
  serves(path: string): boolean
  /** Answers a request to such a path. */
  fetch(request: Request, env: FrontBindings): Response | Promise<Response>
  /** For the admin listener; no secret is in it. */
  status(): AuthServerStatus
  /** What another configuration may go on with. */
  readonly ground: Ground
  /** Ends connections to storage and providers; `next` is the server that takes its place. */
  close(next?: AuthServer): Promise<void>
}

/**
 * Makes the server that a checked configuration describes. Nothing is connected or read before it is needed. `before` is
 * the one of an earlier configuration: its storage and keys go on where nothing about them has changed.
 */
export function createAuthServer(options: AuthServerOptions, before?: AuthServer): AuthServer {
  const { config, own, log } = options
  const settings = settingsOf(config, own)
  const ground = groundOf(options, before?.ground)
  const { store, tokens, material } = ground
  const underWay = new RequestsUnderWay(log)
  const delegates = new DelegateClients(config.delegateClients ?? [], options.directory, underWay.log)
  const trusted = new TrustedIssuers(config.trustedIssuers ?? [], ground.issuers, log)
  const clients = openClients(config, { settings, store, delegates, log: underWay.log })
  const revocations = new Revocations(store, settings.accessTokenS + SKEW_S, log)
  const carried = new CarriedTokens({ tokens, keepS: settings.grantS, log: underWay.log })
  const kept = { settings, store, tokens, carried, revocations, log: underWay.log }
  const grants = openGrants(config, kept)

  const current = followKeys(material, (parts) => createProvider({ ...kept, ...parts, clients, grants }))
  const currentProvider = () => current().provider
  const upstreams = openProviders(options, ground, underWay)
  warnOfNoIdentity(config, log)
  const keyed = () => currentProvider().keyed
  const loginParts = { ...ground, ...kept, upstreams, keyed, grants, requests: currentProvider }
  const { login, loginLinks } = openLogins(config, loginParts)
  const front: Front = {
    title: options.workload.name,
    settings,
    provider: currentProvider,
    findKey: (header, token) => current().findKey(header, token),
    store,
    clients,
    delegates,
    trusted,
    grants,
    revocations,
    ...openGuards(settings, { store, log: underWay.log }),
    login,
    ...openAccounts(config, { store, keyed, grants, clients, tokens, carried, login }),
    loginLinks,
    tokens,
    addressOf: options.addressOf,
    audit: options.audit,
    observe: options.observe,
    underWay,
    log: underWay.log,
  }
  const app = authServerApp(front)
  return {
    local: {
      issuer: settings.issuer,
      async findKey(header, token) {
        await revocations.ready()
        return current().findKey(header, token)
      },
      isRevoked: (claims) => revocations.hasEnded(claims),
    },
    tokens,
    refresh: new TokenRefresh({ upstreams, tokens, carried, keepS: settings.grantS, log }),
    loginLinks,
    status: () => statusOf({ config, upstreams, revocations, keys: () => current().material.keys }),
    ground,
    serves: (path) => isServed(settings, path),
    fetch: (request, env) => app.fetch(request, env),
    async close(next) {
      revocations.close()
      await Promise.all([login.close(), trusted.close()])
      if (next?.ground.store !== store) store.close()
    },
  }
}

/** What bounds strangers, and by which clients prove who they are. */
function openGuards({ issuer }: Settings, { store, log }: Pick<ClientParts, 'store' | 'log'>) {
  const keys = new ClientKeys({ isLocal: isLoopback(new URL(issuer)), log })
  return {
    registrations: new NetworkLimit(),
    logins: new NetworkLimit(LOGINS),
    consents: new NetworkLimit(LOGINS),
    assertions: new ClientAssertions({ issuer, store, keys }),
  }
}

/** The providers, each of which is measured as a part of the request that it is asked for. */
function openProviders(
  { config, directory, observe }: AuthServerOptions,
  { store, sealer }: Ground,
  underWay: RequestsUnderWay,
) {
  const observed: ObserveProvider = (operation) => observe(operation, { parent: underWay.observation })
  return openUpstreams(config, directory, { store, sealer, observe: observed })
}

function warnOfNoIdentity(config: AuthServerConfig, log: Logger): void {
  const primary = primaryOf(config)
  if (primary !== undefined && !isIdentified(primary))
    log.warn({ provider: primary.name }, 'nothing says who users are: each login is a user of its own')
}

interface ClientParts {
  readonly settings: Settings
  readonly store: RecordStore
  readonly delegates: DelegateClients
  /** Log of the request that is answered. */
  log(): Logger
}

function openClients(config: AuthServerConfig, { settings, log, ...parts }: ClientParts): Clients {
  const { cimd, baselineClientScopes = [], forceConfidentialRedirectUris = [] } = config
  const rules = {
    scopes: settings.scopes,
    baselineScopes: baselineClientScopes,
    allowConfidential: settings.allowConfidential,
    forceConfidential: forceConfidentialRedirectUris,
  }
  const isLocal = isLoopback(new URL(settings.issuer))
  const documents = cimd?.enabled ? new ClientDocuments({ config: cimd, rules, isLocal, log }) : undefined
  return createClients({ ...parts, rules, documents })
}

/**
 * Makes the function that gives the provider with the keys as they are now: another one, over the same store, once they
 * have changed. It throws a PublicError `unavailable` while there are no keys.
 */
function followKeys(material: () => KeyMaterial, make: (parts: KeyMaterial) => Provider) {
  let current: { readonly material: KeyMaterial; readonly provider: Provider; readonly findKey: LocalKeys } | undefined
  return function currentKeys() {
    try {
      const now = material()
      if (current?.material !== now) {
        const findKey = createLocalJWKSet({ keys: [...now.keys.publicKeys] })
        current = { material: now, provider: make(now), findKey }
      }
      return current
    } catch (cause) {
      throw new PublicError('unavailable', { headers: { 'Retry-After': '1' }, cause })
    }
  }
}

type LocalKeys = ReturnType<typeof createLocalJWKSet>

interface GrantParts {
  readonly settings: Settings
  readonly store: RecordStore
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  readonly revocations: Revocations
  /** Log of the request that is answered. */
  log(): Logger
}

function openGrants(config: AuthServerConfig, { settings, carried, ...parts }: GrantParts): Grants {
  return createGrants({
    ...parts,
    ttlS: settings.grantS,
    freshS: settings.freshGrantS,
    providers: config.upstreamProviders.map(({ name }) => name),
    // Who ends a login has later ones go on with nothing of it.
    onEnded: (provider, set) => carried.forget(provider, set),
  })
}

type AccountParts = Pick<GrantParts, 'store' | 'tokens' | 'carried'> &
  Pick<Front, 'grants' | 'clients' | 'login'> & { readonly keyed: () => KeyedHash }

/** What people are shown of what is linked to them, and end. */
function openAccounts(
  { upstreamProviders }: AuthServerConfig,
  { store, keyed, login, ...parts }: AccountParts,
): Pick<Front, 'accounts' | 'links'> {
  const providers = upstreamProviders.map(({ name }) => name)
  const forgetConsents: ConsentedLogin['forget'] = (...ofWhom) => login.forget(...ofWhom)
  return {
    accounts: createAccountSessions(store, keyed),
    links: createLinks({ ...parts, providers, forgetConsents }),
  }
}
