import type { IncomingMessage } from 'node:http'
import { createLocalJWKSet, type JWTPayload } from 'jose'
import type { Logger } from 'pino'
import type { Auditing } from '../audit/event.ts'
import type { AuthServerConfig, UpstreamProviderConfig } from '../config/auth-server.ts'
import { delegateClientsIn, issuerPolicies } from '../config/authserver/inbound-grants.ts'
import {
  findPrimaries,
  isIdentified,
  isOnDemand,
  isPerUser,
  keyProviders,
  loginProviders,
} from '../config/authserver/provider.ts'
import { isOn } from '../config/check/gateway.ts'
import { isLoopback } from '../config/check/url.ts'
import type { AuthServerStatus } from '../config/status.ts'
import type { LocalIssuer } from '../identity/index.ts'
import { PublicError } from '../server/errors.ts'
import type { Observe } from '../telemetry/observe.ts'
import { loginOf, markedStore, type UpstreamTokenStore } from '../upstream-tokens/index.ts'
import { createAccountSessions } from './account/account-sessions.ts'
import { createLinks } from './account/links.ts'
import { UserKeys } from './account/user-keys.ts'
import { ClientAssertions } from './clients/client-assertion.ts'
import { ClientDocuments, findDocumentUrl } from './clients/client-documents.ts'
import { ClientKeys, type FindKey } from './clients/client-keys.ts'
import { type Clients, type ClientsOptions, createClients } from './clients/clients.ts'
import { type ClientFiles, DelegateClients, MachineClients } from './clients/configured-clients.ts'
import { NetworkLimit } from './clients/network-limit.ts'
import { SeenKeys } from './clients/seen-keys.ts'
import { SpiffeClients } from './clients/spiffe-clients.ts'
import { tokenProofs } from './clients/token-proofs.ts'
import { authServerApp, isServed } from './endpoint/app.ts'
import { type EndpointBindings, type EndpointParts, RequestsUnderWay } from './endpoint/parts.ts'
import type { KeyMaterial } from './keys/key-files.ts'
import type { KeyedHash } from './keys/keyed-hash.ts'
import { CarriedTokens } from './login/carried-tokens.ts'
import { ChainLogin } from './login/chain-login.ts'
import { type AuthorizationRequests, consentedLogin } from './login/consented-login.ts'
import { LoginLinks } from './login/login-links.ts'
import { TokenRefresh } from './login/token-refresh.ts'
import { type ObserveProvider, openUpstreams, type WatchedUpstream } from './login/upstream/open-upstreams.ts'
import { createGrants, type Grants } from './provider/grants.ts'
import { createProvider, LOGIN_TIME_S, type Provider, type ProviderOptions } from './provider/provider.ts'
import { Revocations } from './provider/revocations.ts'
import {
  createMarkCheck,
  createMarkOfProvider,
  createMarkOfTokens,
  type MarkOfProvider,
} from './provider/rule-marks.ts'
import { deriveSettings, type OwnResource, type Settings } from './provider/settings.ts'
import { TrustedIssuers } from './provider/trusted-issuers.ts'
import { openServerState, type ServerState, type ServerStateOptions } from './server-state.ts'

export type { OwnResource } from './provider/settings.ts'

/** The rate limit of logins and consents for each network. */
const LOGINS = { burst: 100, eachMs: 100 }

/** The largest clock skew among verifiers of access tokens. */
const SKEW_S = 60

export interface AuthServerOptions extends ServerStateOptions {
  readonly own: OwnResource
  addressOf(request: IncomingMessage): string | undefined
  readonly audit: Auditing
  readonly observe: Observe
}

export interface AuthServer {
  /** Verifies its tokens in this process. */
  readonly local: LocalIssuer
  /** The tokens that providers gave users at login. */
  readonly tokens: UpstreamTokenStore
  readonly refresh: TokenRefresh
  readonly loginLinks: LoginLinks
  readonly keys: UserKeys
  /** True if logins of only some users visit the providers after the first. */
  readonly isFiltered: boolean
  /** Tells whether a path belongs to this server. */
  serves(path: string): boolean
  /** Answers a request to such a path. */
  fetch(request: Request, env: EndpointBindings): Response | Promise<Response>
  /** Returns the status for the admin listener, without secrets. */
  status(): AuthServerStatus
  /** The state that a server of another configuration may keep. */
  readonly serverState: ServerState
  /** Closes connections to storage and providers. `next` is the server that replaces this one. */
  close(next?: AuthServer): Promise<void>
}

/** The parts that components of a server are built from. */
interface Parts extends Pick<EndpointParts, 'settings' | 'store' | 'tokens' | 'revocations' | 'log'> {
  readonly config: AuthServerConfig
  readonly carried: CarriedTokens
  /** Returns the mark of the party whose tokens or keys are stored under a provider's name. */
  readonly markOf: MarkOfProvider
  readonly proofKey: ProviderOptions['proofKey']
  readonly bindsCodes: boolean
}

/**
 * Creates the server of a checked configuration. It connects and reads lazily. `before` is the server of an earlier
 * configuration: its storage and keys are kept unless their settings have changed.
 */
export function createAuthServer(options: AuthServerOptions, before?: AuthServer): AuthServer {
  const { own, log, addressOf, audit, observe } = options
  // Users log in at all providers but those of keys, so only the key parts get the full list.
  const config = { ...options.config, upstreamProviders: [...loginProviders(options.config.upstreamProviders)] }
  const settings = deriveSettings(config, own)
  const serverState = openServerState(options, before?.serverState)
  const { store, material } = serverState
  const markOf = createMarkOfTokens(options.config)
  const tokens = markedStore(serverState.tokens, markOf)
  const underWay = new RequestsUnderWay(log)
  const revocations = new Revocations(store, settings.accessTokenS + SKEW_S, log)
  const carried = new CarriedTokens({ tokens, keepS: settings.grantS, log: underWay.log })
  const parts = { config, settings, store, tokens, carried, revocations, markOf, ...ofRequests(underWay, config) }
  const { delegates, machines, trusted } = knownParties(options, serverState, underWay.log)
  const hasEnded = createEndCheck(parts, machines)
  const clients = openClients(parts, [delegates, machines])
  const grants = openGrants(parts)

  const current = followKeys(material, (keys) => createProvider({ ...parts, ...keys, clients, grants }))
  const provider = () => current().provider
  const keyed = () => provider().keyed
  const upstreams = openProviders({ ...options, config }, serverState, underWay)
  const { login, loginLinks } = openLogins({ ...serverState, ...parts, upstreams, keyed, grants, requests: provider })
  const keys = openKeys(options, parts, keyed)
  const endpointParts: EndpointParts = {
    ...parts,
    keys,
    title: options.workload.name,
    provider,
    findKey: (header, token) => current().findKey(header, token),
    clients,
    delegates,
    machines,
    trusted,
    hasEnded,
    grants,
    ...openGuards(parts, serverState, options.directory),
    login,
    loginLinks,
    accounts: createAccountSessions(store, keyed, markOf),
    links: openLinks(parts, { grants, clients, login }),
    addressOf,
    audit,
    observe,
    underWay,
  }
  const app = authServerApp(endpointParts)
  return {
    local: localIssuer(parts, (...lookup) => current().findKey(...lookup), hasEnded),
    tokens,
    refresh: new TokenRefresh({ upstreams, tokens, carried, keepS: settings.grantS, log }),
    loginLinks,
    keys,
    isFiltered: parts.config.upstreamFilter !== undefined || settings.primaries.length > 1,
    status: () => buildStatus(parts, upstreams, trusted, () => current().material),
    serverState,
    serves: (path) => isServed(settings, path),
    fetch: (request, env) => app.fetch(request, env),
    async close(next) {
      revocations.close()
      await Promise.all([login.close(), trusted.close()])
      if (next?.serverState.store !== store) store.close()
    },
  }
}

const ofRequests = ({ log, proofKey }: RequestsUnderWay, { dpop }: AuthServerConfig) => ({
  log,
  proofKey,
  bindsCodes: isOn(dpop),
})

/** Opens the keys that users have of their own. */
const openKeys = (
  { config, audit }: AuthServerOptions,
  { settings, tokens }: Parts,
  keyed: () => KeyedHash,
): UserKeys =>
  new UserKeys({
    settings,
    tokens,
    keyed,
    providers: keyProviders(config),
    onRefused: (subject, provider) =>
      audit.log?.write({
        type: 'key_refused',
        outcome: 'denied',
        caller: { kind: 'authenticated', issuer: settings.issuer, subject, claims: {}, expiresAt: 0 },
        target: { provider },
      }),
  })

/** Returns how the gateway verifies the server's tokens in this process. */
const localIssuer = (
  { settings, revocations }: Parts,
  findKey: LocalIssuer['findKey'],
  isRevoked: LocalIssuer['isRevoked'],
): LocalIssuer => ({
  issuer: settings.issuer,
  async findKey(...lookup) {
    await revocations.ready()
    return findKey(...lookup)
  },
  isRevoked,
})

/** Creates the function that tells whether a token has ended: by itself, or with what the configuration no longer has. */
function createEndCheck({ config, settings, revocations }: Parts, machines: MachineClients) {
  const isRemoved = createMarkCheck(config)
  return (claims: JWTPayload): boolean =>
    revocations.hasEnded(claims) || machines.isGone(claims) || isRemoved(claims) || isOfNoClient(settings, claims)
}

/** Tells whether a login's client has a metadata document, and such clients are no longer accepted. */
const isOfNoClient = ({ acceptsDocuments }: Settings, claims: JWTPayload): boolean =>
  !acceptsDocuments &&
  loginOf(claims) !== undefined &&
  typeof claims['client_id'] === 'string' &&
  findDocumentUrl(claims['client_id']) !== undefined

const listNames = (
  { upstreamProviders }: AuthServerConfig,
  which: (provider: UpstreamProviderConfig) => boolean = () => true,
): readonly string[] => upstreamProviders.filter(which).map(({ name }) => name)

/** Returns the clients and issuers of the configuration. `clientLog` returns the log of the current request. */
function knownParties(
  { config, directory, log }: AuthServerOptions,
  { issuers }: ServerState,
  clientLog: ClientFiles['log'],
) {
  const { cluster, inboundGrants: { clientCredentials, spiffeClientAuth = [] } = {} } = config
  const files = { directory, log: clientLog }
  return {
    delegates: new DelegateClients(delegateClientsIn(config), files),
    machines: new MachineClients(clientCredentials?.clients ?? [], spiffeClientAuth, files),
    trusted: new TrustedIssuers(issuerPolicies(config), { cluster, issuers, directory, log }),
  }
}

/** Opens the rate limits of requests that are open to everybody, and the checks that authenticate clients. */
function openGuards({ config, settings: { issuer }, store, log }: Parts, { material }: ServerState, directory: string) {
  const keys = new ClientKeys({ isLocal: isLoopback(new URL(issuer)), log })
  const { spiffeTrustDomains: domains = [], inboundGrants } = config
  const clients = inboundGrants?.spiffeClientAuth ?? []
  return {
    registrations: new NetworkLimit(),
    logins: new NetworkLimit(LOGINS),
    consents: new NetworkLimit(LOGINS),
    assertions: new ClientAssertions({ issuer, store, keys }),
    seenKeys: new SeenKeys({ keys, store }),
    proofs: tokenProofs(config.dpop, { issuer, store, secrets: () => material().secrets }),
    spiffe: new SpiffeClients({ issuer, domains, clients, files: { directory, log }, keys }),
  }
}

/** Opens the providers. Each call to one is measured as part of the request that causes it. */
function openProviders(
  { config, directory, observe, log }: AuthServerOptions,
  { store, sealer }: ServerState,
  underWay: RequestsUnderWay,
) {
  warnOfNoIdentity(config, log)
  const observed: ObserveProvider = (operation) => observe(operation, { parent: underWay.observation })
  return openUpstreams(config, directory, { store, sealer, observe: observed })
}

function warnOfNoIdentity(config: AuthServerConfig, log: Logger): void {
  const primary = findPrimaries(config).find((one) => !isIdentified(one))
  if (primary !== undefined)
    log.warn(
      { provider: primary.name },
      'no provider says who users are, so each login counts as a new user: set userInfo or identityFromToken',
    )
}

function openClients({ config, settings, store, log }: Parts, configured: ClientsOptions['configured']): Clients {
  const { cimd, baselineClientScopes = [], forceConfidentialRedirectUris = [] } = config
  const rules = {
    scopes: settings.scopes,
    baselineScopes: baselineClientScopes,
    toolScopes: settings.toolScopes,
    allowConfidential: settings.allowConfidential,
    allowKeys: settings.allowKeys,
    forceConfidential: forceConfidentialRedirectUris,
    isLocal: isLoopback(new URL(settings.issuer)),
  }
  const { isLocal } = rules
  const documents = cimd?.enabled ? new ClientDocuments({ config: cimd, rules, isLocal, log }) : undefined
  return createClients({ store, configured, rules, documents })
}

/**
 * Returns the function that gives the provider with the current keys. After a change of keys it builds a new provider
 * over the same store. It throws a PublicError `unavailable` while there are no keys.
 */
function followKeys(material: () => KeyMaterial, make: (parts: KeyMaterial) => Provider) {
  let current: { readonly material: KeyMaterial; readonly provider: Provider; readonly findKey: FindKey } | undefined
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

const openGrants = ({ config, settings, carried, ...parts }: Parts): Grants =>
  createGrants({
    ...parts,
    ttlS: settings.grantS,
    freshS: settings.freshGrantS,
    providers: listNames(config),
    markOf: createMarkOfProvider(config),
    // A login that has ended hands no refresh token to later ones.
    onEnded: (provider, set) => carried.forget(provider, set),
  })

const openLinks = (parts: Parts, { grants, clients, login }: Pick<EndpointParts, 'grants' | 'clients' | 'login'>) =>
  createLinks({
    ...parts,
    grants,
    clients,
    providers: listNames(parts.config, (provider) => !isPerUser(provider)),
    perUser: listNames(parts.config, isPerUser),
    issuer: parts.settings.issuer,
    forgetConsents: (...ofWhom) => login.forget(...ofWhom),
  })

interface PartsOfLogins extends Parts, Pick<ServerState, 'pageSealer' | 'loginsUnderWay'> {
  readonly upstreams: readonly WatchedUpstream[]
  readonly keyed: () => KeyedHash
  readonly grants: Grants
  readonly requests: () => AuthorizationRequests
}

/** Opens both kinds of login at providers: the one for a client, and the one that a client needs later. */
function openLogins({ config, settings, ...parts }: PartsOfLogins): Pick<EndpointParts, 'login' | 'loginLinks'> {
  const { issuer, grantS, freshGrantS, linkEndpoint: url, callbackNames } = settings
  const loginS = LOGIN_TIME_S
  const primaries = findPrimaries(config).map(({ name }) => name)
  const onDemand = new Set(listNames(config, isOnDemand))
  const perUser = new Set(listNames(config, isPerUser))
  const { upstreamFilter: filter } = config
  const ofChain = { issuer, primaries, onDemand, callbackNames, loginS, keepS: freshGrantS }
  const chain = new ChainLogin({ ...parts, ...ofChain, ...(filter && { filter }) })
  const forgetTokens = (login: string) => parts.tokens.removeLogin(login)
  const login = consentedLogin({ ...parts, login: chain, loginS, forgetTokens })
  const ofLinks = { primaries, onDemand, perUser, url, login, loginS, keepS: grantS }
  return { login, loginLinks: new LoginLinks({ ...parts, ...ofLinks }) }
}

/** Returns the status of a server for the admin listener. */
function buildStatus(
  { config, revocations }: Parts,
  upstreams: readonly WatchedUpstream[],
  { states }: TrustedIssuers,
  material: () => KeyMaterial,
): AuthServerStatus {
  const type = config.storage?.redis === undefined ? 'memory' : 'redis'
  return {
    issuer: config.issuer,
    storage: { type, answers: type === 'memory' ? true : revocations.isAnswered },
    keys: keyIds(material),
    providers: upstreams.map(({ state }) => state),
    ...(states.length > 0 && { trustedIssuers: states }),
  }
}

/** Returns the key ids; none while the keys can't be read, and the log holds the reason. */
function keyIds(material: () => KeyMaterial): readonly string[] {
  try {
    return material().keys.publicKeys.flatMap(({ kid }) => (kid === undefined ? [] : [kid]))
  } catch {
    return []
  }
}
