import { lifespanBounds } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { documentDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { AuthServerConfig, MachineClientConfig } from '../auth-server.ts'
import { delegateClientsIn } from '../authserver/inbound-grants.ts'
import { findPrimaries, isChosen, isIdentified, isKey, isOnDemand } from '../authserver/provider.ts'
import type { GatewayConfig } from '../gateway.ts'
import type { OidcConfig } from '../gateway-oidc.ts'
import type { Finding, Findings } from '../load.ts'
import { delegationFindings } from './authserver/delegation.ts'
import { clientIdFindings, keyAddressFindings, spiffeFindings } from './authserver/spiffe.ts'
import { upstreamFindings } from './authserver/upstream.ts'
import { namedProviders } from './credential.ts'
import { duplicates } from './lists.ts'
import { redisFindings } from './redis.ts'
import { isLoopback, plainHttpFindings, urlFindings } from './url.ts'

/** Settings for a remote issuer. The embedded issuer's keys are in this process, and nothing is called. */
const OF_OTHER_ISSUERS = ['cluster', 'serviceAccount', 'jwksUrl', 'introspection', 'bearerTokenFile'] as const

/** Checks `incomingAuth.oidc` if its issuer is the authorization server of the same gateway. */
export const ownIssuerFindings = (oidc: OidcConfig, at: string): readonly Finding[] =>
  OF_OTHER_ISSUERS.filter((field) => oidc[field] !== undefined).map((field) => ({
    pointer: `${at}/${field}`,
    message: 'must be left out: the issuer is the authorization server of this gateway',
  }))

export function* authServerFindings(config: GatewayConfig): Findings {
  const { authServer, incomingAuth } = config
  if (authServer === undefined) return
  const at = '/authServer'
  if (incomingAuth.oidc?.issuer !== authServer.issuer)
    yield { pointer: `${at}/issuer`, message: 'must be the issuer of incomingAuth.oidc, which checks its tokens' }
  yield* authServerOwnFindings(authServer, at)
  yield* providerNameFindings(config)
}

/** Checks an authorization server at the pointer `at` without regard to its gateway. */
export function authServerOwnFindings(authServer: AuthServerConfig, at: string): readonly Finding[] {
  const { issuer, authorizationEndpointBaseUrl: base, storage, upstreamProviders } = authServer
  return [
    ...issuerUrlFindings(issuer, `${at}/issuer`, authServer),
    ...(base === undefined ? [] : issuerUrlFindings(base, `${at}/authorizationEndpointBaseUrl`, authServer)),
    ...lifespanFindings(authServer, `${at}/tokenLifespans`),
    ...(authServer.allowedAudiences ?? []).flatMap((url, index) => urlFindings(url, `${at}/allowedAudiences/${index}`)),
    ...duplicates(upstreamProviders, ({ name }) => name, `${at}/upstreamProviders`, '/name'),
    ...upstreamProviders.flatMap((provider, index) =>
      upstreamFindings(provider, `${at}/upstreamProviders/${index}`, authServer),
    ),
    ...primaryProviderFindings(authServer, at),
    ...domainFindings(authServer, at),
    ...loginPolicyFindings(authServer, at),
    ...upstreamFilterFindings(authServer, at),
    ...storageFindings(storage, `${at}/storage`),
    ...confidentialFindings(authServer, at),
    ...delegationFindings(authServer, at),
    ...machineClientFindings(authServer, at),
    ...(parseDuration(authServer.cimd?.cacheFallbackTtl ?? documentDefaults.cacheFallbackTtl) > 0
      ? []
      : [{ pointer: `${at}/cimd/cacheFallbackTtl`, message: 'must be longer than zero' }]),
  ]
}

/**
 * Checks an issuer URL: https, or http on loopback; no query and fragment (RFC 8414 section 2); no slash at the end.
 */
function* issuerUrlFindings(text: string, pointer: string, { insecureAllowHTTP }: AuthServerConfig): Findings {
  const url = URL.parse(text)
  yield* urlFindings(text, pointer)
  if (url === null) return
  yield* plainHttpFindings(url, pointer, insecureAllowHTTP)
  if (text.includes('?')) yield { pointer, message: 'must have no query' }
  if (text.endsWith('/'))
    yield { pointer, message: `must be written without the slash at its end: ${text.replace(/\/+$/, '')}` }
  else if (url.href.replace(/\/$/, '') !== text)
    yield { pointer, message: `must be written as ${url.href.replace(/\/$/, '')}` }
}

function* lifespanFindings({ tokenLifespans = {} }: AuthServerConfig, at: string): Findings {
  for (const [name, { from, to, usual }] of Object.entries(lifespanBounds)) {
    const value = parseDuration(tokenLifespans[name as keyof typeof lifespanBounds] ?? usual)
    if (value < parseDuration(from) || value > parseDuration(to))
      yield { pointer: `${at}/${name}`, message: `must be from ${from} to ${to}` }
  }
}

/** Checks that every login identifies the user, and links a later login to the same user. */
function* loginPolicyFindings(server: AuthServerConfig, at: string): Findings {
  const primaries = findPrimaries(server)
  const list = `${at}/upstreamProviders`
  const key = primaries.find(isKey)
  if (key !== undefined) {
    const pointer = `${list}/${server.upstreamProviders.indexOf(key)}/type`
    yield { pointer, message: 'must be oidc or oauth2: this provider says who users are' }
    return
  }
  const isKnownAgain = primaries.every(isIdentified)
  for (const [index, provider] of server.upstreamProviders.entries()) {
    const pointer = `${list}/${index}/loginPolicy`
    if (!isOnDemand(provider)) continue
    if (primaries.includes(provider)) yield { pointer, message: 'must be required: this provider says who users are' }
    else if (!isKnownAgain)
      yield {
        pointer,
        message:
          'must be required: no provider identifies users, so a later login at this one could not be matched to its user',
      }
  }
}

/** Checks the providers of which a login visits one. */
function* primaryProviderFindings(server: AuthServerConfig, at: string): Findings {
  const { primaryProviders: names = [], primaryUpstreamProvider: primary, upstreamProviders } = server
  if (primary !== undefined && !upstreamProviders.some(({ name }) => name === primary))
    yield { pointer: `${at}/primaryUpstreamProvider`, message: 'must name one of upstreamProviders' }
  if (server.primaryProviders !== undefined && primary !== undefined)
    yield { pointer: `${at}/primaryProviders`, message: 'excludes primaryUpstreamProvider: name that one here too' }
  for (const [index, name] of names.entries())
    if (!upstreamProviders.some((one) => one.name === name))
      yield { pointer: `${at}/primaryProviders/${index}`, message: 'must name one of upstreamProviders' }
  for (const [index, { name, emailDomains }] of upstreamProviders.entries())
    if (emailDomains !== undefined && !isChosen(server, name))
      yield {
        pointer: `${at}/upstreamProviders/${index}/emailDomains`,
        message: 'has no effect: users choose among several primaryProviders, and this provider is not one of them',
      }
}

/** Checks that each domain leads to one provider. */
function* domainFindings({ upstreamProviders }: AuthServerConfig, at: string): Findings {
  const providers = new Map<string, string>()
  for (const [index, { name, emailDomains = [] }] of upstreamProviders.entries())
    for (const [place, domain] of emailDomains.entries()) {
      const other = providers.get(domain.toLowerCase())
      if (other === undefined) providers.set(domain.toLowerCase(), name)
      else
        yield {
          pointer: `${at}/upstreamProviders/${index}/emailDomains/${place}`,
          message: `leads to the provider ${JSON.stringify(other)} already; ${name === other ? 'remove one' : 'a domain has one provider'}`,
        }
    }
}

/** Checks that the filter names providers that a login can go on to. */
function* upstreamFilterFindings(server: AuthServerConfig, at: string): Findings {
  const { upstreamFilter, upstreamProviders } = server
  if (upstreamFilter === undefined) return
  const { rules, defaultUpstreams = [] } = upstreamFilter
  const lists = [
    ...rules.map((rule, index) => [`/rules/${index}/upstreamProviders`, rule.upstreamProviders] as const),
    ['/defaultUpstreams', defaultUpstreams] as const,
  ]
  for (const [place, names] of lists)
    for (const [index, name] of names.entries()) {
      const provider = upstreamProviders.find((one) => one.name === name)
      const pointer = `${at}/upstreamFilter${place}/${index}`
      if (provider === undefined) yield { pointer, message: 'must name one of upstreamProviders' }
      else if (isChosen(server, name))
        yield {
          pointer,
          message: 'has no effect: of primaryProviders each login visits the one that its user has chosen',
        }
      else if (isOnDemand(provider) || isKey(provider))
        yield { pointer, message: 'has no effect: logins do not visit a provider whose loginPolicy is onDemand' }
    }
}

/** Checks the provider whose claims policies read: it must issue ID tokens, and every login must visit it. */
export function judgedProviderFindings({ authServer, authz }: GatewayConfig): readonly Finding[] {
  const named = authz?.primaryUpstreamProvider
  if (named === undefined) return []
  const provider = authServer?.upstreamProviders.find(({ name }) => name === named)
  const isOneOfSeveral = authServer !== undefined && isChosen(authServer, named)
  if (provider?.type === 'oidc' && !isOnDemand(provider) && !isOneOfSeveral) return []
  const message =
    provider === undefined
      ? 'must name one of authServer.upstreamProviders'
      : isOneOfSeveral
        ? 'must name a provider that every login visits: of primaryProviders each visits one, and policies would deny all other users'
        : provider.type === 'oidc'
          ? 'must name a provider whose loginPolicy is required: only these give an ID token at each login'
          : 'must name a provider of type oidc: only these give an ID token with claims'
  return [{ pointer: '/authz/primaryUpstreamProvider', message }]
}

/** Checks credentials that name a provider: users must log in at it here. */
function providerNameFindings({ authServer, backends }: GatewayConfig): readonly Finding[] {
  const providers = authServer?.upstreamProviders ?? []
  const names = new Set(providers.map(({ name }) => name))
  const keys = new Set(providers.filter(isKey).map(({ name }) => name))
  return backends.flatMap(({ credential }, index) =>
    (credential === undefined ? [] : namedProviders(credential))
      .filter(({ name, isSent }) => !names.has(name) || (keys.has(name) && !isSent))
      .map(({ field, name }) => ({
        pointer: `/backends/${index}/credential/${field}`,
        message: keys.has(name)
          ? 'must name a provider that issues tokens: to send the key of a user, use upstreamInject'
          : 'must name one of authServer.upstreamProviders',
      })),
  )
}

function* storageFindings(storage: AuthServerConfig['storage'], at: string): Findings {
  if (storage === undefined) return
  const { type, redis, keyPrefix } = storage
  if ((type === 'redis') !== (redis !== undefined)) {
    yield { pointer: `${at}/redis`, message: 'must be set when type is redis, and only then' }
    return
  }
  if (redis !== undefined) yield* redisFindings(redis, `${at}/redis`)
  if (type === 'memory' && keyPrefix !== undefined) yield { pointer: `${at}/keyPrefix`, message: 'is for type redis' }
}

function* confidentialFindings(config: AuthServerConfig, at: string): Findings {
  const { issuer, allowConfidentialClientRegistration: allowed, forceConfidentialRedirectUris: forced } = config
  const url = URL.parse(issuer)
  if (forced !== undefined && allowed !== true)
    yield { pointer: `${at}/forceConfidentialRedirectUris`, message: 'needs allowConfidentialClientRegistration' }
  const isPlain = url?.protocol === 'http:'
  if (allowed === true && isPlain && !(isLoopback(url) && config.insecureAllowConfidentialOverLoopbackHTTP === true))
    yield {
      pointer: `${at}/allowConfidentialClientRegistration`,
      message: 'needs an https issuer: secrets would travel in the clear',
    }
}

export function machineClientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  return [...clientsFindings(config, `${at}/inboundGrants/clientCredentials/clients`), ...spiffeFindings(config, at)]
}

function* clientsFindings(config: AuthServerConfig, list: string): Findings {
  const clients = config.inboundGrants?.clientCredentials?.clients ?? []
  const workloads = new Set(config.inboundGrants?.spiffeClientAuth?.map(({ clientId }) => clientId))
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  yield* duplicates(clients, ({ clientId }) => clientId, list, '/clientId')
  for (const [index, client] of clients.entries()) {
    const pointer = `${list}/${index}/clientId`
    yield* clientFindings(client, `${list}/${index}`, config.issuer)
    if (delegates.has(client.clientId)) yield { pointer, message: 'must not be the id of one of delegateClients' }
    if (workloads.has(client.clientId)) yield { pointer, message: 'must not be the id of one of spiffeClientAuth' }
  }
}

function* clientFindings(client: MachineClientConfig, at: string, issuer: string): Findings {
  const { clientId, clientSecretFile, jwksFile, jwksUrl } = client
  const count = [clientSecretFile, jwksFile, jwksUrl].filter((way) => way !== undefined).length
  if (count !== 1) yield { pointer: at, message: 'must have exactly one of clientSecretFile, jwksFile and jwksUrl' }
  yield* clientIdFindings(clientId, `${at}/clientId`)
  if (jwksUrl !== undefined) yield* keyAddressFindings(jwksUrl, `${at}/jwksUrl`, issuer)
}
