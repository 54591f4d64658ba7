import { lifespanBounds } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { documentDefaults } from '../../../crds/settings/gateway/defaults.ts'
import type { AuthServerConfig, MachineClientConfig } from '../auth-server.ts'
import { delegateClientsIn } from '../authserver/inbound-grants.ts'
import { findPrimaries, isChosen, isIdentified, isKey, isOnDemand } from '../authserver/provider.ts'
import type { GatewayConfig } from '../gateway.ts'
import type { OidcConfig } from '../gateway-oidc.ts'
import type { Finding } from '../load.ts'
import { delegationFindings } from './authserver/delegation.ts'
import { keyAddressFindings, spiffeFindings } from './authserver/spiffe.ts'
import { upstreamFindings } from './authserver/upstream.ts'
import { namedProviders } from './credential.ts'
import { duplicates } from './lists.ts'
import { redisFindings } from './redis.ts'
import { isLoopback, urlFindings } from './url.ts'

/** Settings for a remote issuer. The embedded issuer's keys are in this process, and nothing is called. */
const OF_OTHER_ISSUERS = ['cluster', 'serviceAccount', 'jwksUrl', 'introspection', 'bearerTokenFile'] as const

/** Checks `incomingAuth.oidc` if its issuer is the authorization server of the same gateway. */
export const ownIssuerFindings = (oidc: OidcConfig, at: string): readonly Finding[] =>
  OF_OTHER_ISSUERS.filter((field) => oidc[field] !== undefined).map((field) => ({
    pointer: `${at}/${field}`,
    message: 'must be left out: the issuer is the authorization server of this gateway',
  }))

export function authServerFindings(config: GatewayConfig): readonly Finding[] {
  const { authServer, incomingAuth } = config
  if (authServer === undefined) return []
  const at = '/authServer'
  return [
    ...(incomingAuth.oidc?.issuer === authServer.issuer
      ? []
      : [{ pointer: `${at}/issuer`, message: 'must be the issuer of incomingAuth.oidc, which checks its tokens' }]),
    ...authServerOwnFindings(authServer, at),
    ...providerNameFindings(config),
  ]
}

/** Checks an authorization server at the pointer `at` without regard to its gateway. */
export function authServerOwnFindings(authServer: AuthServerConfig, at: string): readonly Finding[] {
  const { issuer, authorizationEndpointBaseUrl: base, storage, upstreamProviders } = authServer
  const { primaryUpstreamProvider: primary } = authServer
  return [
    ...issuerUrlFindings(issuer, `${at}/issuer`, authServer),
    ...(base === undefined ? [] : issuerUrlFindings(base, `${at}/authorizationEndpointBaseUrl`, authServer)),
    ...lifespanFindings(authServer, `${at}/tokenLifespans`),
    ...(authServer.allowedAudiences ?? []).flatMap((url, index) => urlFindings(url, `${at}/allowedAudiences/${index}`)),
    ...duplicates(upstreamProviders, ({ name }) => name, `${at}/upstreamProviders`, '/name'),
    ...upstreamProviders.flatMap((provider, index) =>
      upstreamFindings(provider, `${at}/upstreamProviders/${index}`, authServer),
    ),
    ...(primary === undefined || upstreamProviders.some(({ name }) => name === primary)
      ? []
      : [{ pointer: `${at}/primaryUpstreamProvider`, message: 'must name one of upstreamProviders' }]),
    ...primaryProviderFindings(authServer, at),
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
function issuerUrlFindings(text: string, pointer: string, { insecureAllowHTTP }: AuthServerConfig): readonly Finding[] {
  const url = URL.parse(text)
  const findings = [...urlFindings(text, pointer)]
  if (url === null) return findings
  if (url.protocol === 'http:' && !isLoopback(url) && insecureAllowHTTP !== true)
    findings.push({ pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' })
  if (text.includes('?')) findings.push({ pointer, message: 'must have no query' })
  if (text.endsWith('/'))
    findings.push({ pointer, message: `must be written without the slash at its end: ${text.replace(/\/+$/, '')}` })
  else if (url.href.replace(/\/$/, '') !== text)
    findings.push({ pointer, message: `must be written as ${url.href.replace(/\/$/, '')}` })
  return findings
}

function lifespanFindings({ tokenLifespans = {} }: AuthServerConfig, at: string): readonly Finding[] {
  return Object.entries(lifespanBounds).flatMap(([name, { from, to, usual }]) => {
    const value = parseDuration(tokenLifespans[name as keyof typeof lifespanBounds] ?? usual)
    return value >= parseDuration(from) && value <= parseDuration(to)
      ? []
      : [{ pointer: `${at}/${name}`, message: `must be from ${from} to ${to}` }]
  })
}

/** Checks that every login identifies the user, and links a later login to the same user. */
function loginPolicyFindings(server: AuthServerConfig, at: string): readonly Finding[] {
  const primaries = findPrimaries(server)
  const key = primaries.find(isKey)
  if (key !== undefined) {
    const index = server.upstreamProviders.indexOf(key)
    const pointer = `${at}/upstreamProviders/${index}/type`
    return [{ pointer, message: 'must be oidc or oauth2: this provider says who users are' }]
  }
  const isKnownAgain = primaries.every(isIdentified)
  return server.upstreamProviders.flatMap((provider, index) => {
    const pointer = `${at}/upstreamProviders/${index}/loginPolicy`
    if (!isOnDemand(provider)) return []
    if (primaries.includes(provider))
      return [{ pointer, message: 'must be required: this provider says who users are' }]
    return isKnownAgain
      ? []
      : [
          {
            pointer,
            message:
              'must be required: no provider identifies users, so a later login at this one could not be matched to its user',
          },
        ]
  })
}

/** Checks the providers of which a login visits one, and that each domain leads to one of them. */
function primaryProviderFindings(server: AuthServerConfig, at: string): readonly Finding[] {
  const { primaryProviders: names, primaryUpstreamProvider, upstreamProviders } = server
  const domains = upstreamProviders.flatMap(({ name, emailDomains = [] }, index) =>
    emailDomains.map((domain, place) => ({
      name,
      domain: domain.toLowerCase(),
      pointer: `${at}/upstreamProviders/${index}/emailDomains/${place}`,
    })),
  )
  return [
    ...(names !== undefined && primaryUpstreamProvider !== undefined
      ? [{ pointer: `${at}/primaryProviders`, message: 'excludes primaryUpstreamProvider: name that one here too' }]
      : []),
    ...duplicates(names ?? [], (name) => name, `${at}/primaryProviders`, ''),
    ...(names ?? []).flatMap((name, index) =>
      upstreamProviders.some((one) => one.name === name)
        ? []
        : [{ pointer: `${at}/primaryProviders/${index}`, message: 'must name one of upstreamProviders' }],
    ),
    ...upstreamProviders.flatMap(({ name, emailDomains }, index) =>
      emailDomains === undefined || isChosen(server, name)
        ? []
        : [
            {
              pointer: `${at}/upstreamProviders/${index}/emailDomains`,
              message:
                'has no effect: users choose among several primaryProviders, and this provider is not one of them',
            },
          ],
    ),
    ...domains.flatMap(({ domain, name, pointer }, index) => {
      const other = domains.slice(0, index).find((one) => one.domain === domain)
      return other === undefined
        ? []
        : [
            {
              pointer,
              message: `leads to the provider ${JSON.stringify(other.name)} already; ${name === other.name ? 'remove one' : 'a domain has one provider'}`,
            },
          ]
    }),
  ]
}

/** Checks that the filter names providers that a login can go on to. */
function upstreamFilterFindings(server: AuthServerConfig, at: string): readonly Finding[] {
  const { upstreamFilter, upstreamProviders } = server
  if (upstreamFilter === undefined) return []
  const { rules, defaultUpstreams = [] } = upstreamFilter
  const lists = [
    ...rules.map((rule, index) => [`/rules/${index}/upstreamProviders`, rule.upstreamProviders] as const),
    ['/defaultUpstreams', defaultUpstreams] as const,
  ]
  return lists.flatMap(([place, names]) =>
    names.flatMap((name, index) => {
      const provider = upstreamProviders.find((one) => one.name === name)
      const pointer = `${at}/upstreamFilter${place}/${index}`
      if (provider === undefined) return [{ pointer, message: 'must name one of upstreamProviders' }]
      if (isChosen(server, name))
        return [
          { pointer, message: 'has no effect: of primaryProviders each login visits the one that its user has chosen' },
        ]
      return isOnDemand(provider) || isKey(provider)
        ? [{ pointer, message: 'has no effect: logins do not visit a provider whose loginPolicy is onDemand' }]
        : []
    }),
  )
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

function storageFindings(storage: AuthServerConfig['storage'], at: string): readonly Finding[] {
  if (storage === undefined) return []
  const { type, redis, keyPrefix } = storage
  if ((type === 'redis') !== (redis !== undefined))
    return [{ pointer: `${at}/redis`, message: 'must be set when type is redis, and only then' }]
  return [
    ...(redis === undefined ? [] : redisFindings(redis, `${at}/redis`)),
    ...(type === 'memory' && keyPrefix !== undefined
      ? [{ pointer: `${at}/keyPrefix`, message: 'is for type redis' }]
      : []),
  ]
}

function confidentialFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const { issuer, allowConfidentialClientRegistration: allowed, forceConfidentialRedirectUris: forced } = config
  const url = URL.parse(issuer)
  const isPlain = url?.protocol === 'http:'
  const pointer = `${at}/allowConfidentialClientRegistration`
  return [
    ...(forced !== undefined && allowed !== true
      ? [{ pointer: `${at}/forceConfidentialRedirectUris`, message: 'needs allowConfidentialClientRegistration' }]
      : []),
    ...(allowed === true && isPlain && !(isLoopback(url) && config.insecureAllowConfidentialOverLoopbackHTTP === true)
      ? [{ pointer, message: 'needs an https issuer: secrets would travel in the clear' }]
      : []),
  ]
}

export function machineClientFindings(config: AuthServerConfig, at: string): readonly Finding[] {
  const clients = config.inboundGrants?.clientCredentials?.clients ?? []
  const workloads = new Set(config.inboundGrants?.spiffeClientAuth?.map(({ clientId }) => clientId))
  const list = `${at}/inboundGrants/clientCredentials/clients`
  const delegates = new Set(delegateClientsIn(config).map(({ clientId }) => clientId))
  return [
    ...duplicates(clients, ({ clientId }) => clientId, list, '/clientId'),
    ...clients.flatMap((client, index) => [
      ...clientFindings(client, `${list}/${index}`, config.issuer),
      ...(delegates.has(client.clientId)
        ? [{ pointer: `${list}/${index}/clientId`, message: 'must not be the id of one of delegateClients' }]
        : []),
      ...(workloads.has(client.clientId)
        ? [{ pointer: `${list}/${index}/clientId`, message: 'must not be the id of one of spiffeClientAuth' }]
        : []),
    ]),
    ...spiffeFindings(config, at),
  ]
}

function clientFindings(client: MachineClientConfig, at: string, issuer: string): readonly Finding[] {
  const { clientId, clientSecretFile, jwksFile, jwksUrl } = client
  const count = [clientSecretFile, jwksFile, jwksUrl].filter((way) => way !== undefined).length
  return [
    ...(count === 1
      ? []
      : [{ pointer: at, message: 'must have exactly one of clientSecretFile, jwksFile and jwksUrl' }]),
    // The id of a client that publishes a metadata document.
    ...(clientId.includes('://')
      ? [
          {
            pointer: `${at}/clientId`,
            message: 'must not be a URL: those are the ids of clients with a metadata document',
          },
        ]
      : []),
    ...(jwksUrl === undefined ? [] : keyAddressFindings(jwksUrl, `${at}/jwksUrl`, issuer)),
  ]
}
