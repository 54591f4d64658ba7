import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'pino'
import { buildRedirectUri, loginProviders } from '../../config/authserver/provider.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Loaded } from '../../config/load.ts'
import {
  createAuthenticate,
  type ProofGuard,
  type ProofState,
  type ProtectedResourceMetadata,
  proofGuard,
  protectedResourceMetadata,
  type Verifier,
} from '../../identity/index.ts'
import type { Issuers } from '../../identity/issuers.ts'
import { type HostNames, hostNames } from '../../server/hosts.ts'
import { type ClientAddressOf, forwardedAddress, peerAddress } from '../../server/network-of.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { type Authorizer, createAuthorizer } from '../access/authorizer.ts'
import { readScopeRules, type ScopeRules } from '../access/scope-rules.ts'
import type { Implementation } from '../backends/session/session-peer.ts'
import { CrossOrigin } from './cross-origin.ts'
import type { OwnIssuer } from './own-issuer.ts'
import { withPolicyIdentity } from './policy-identity.ts'
import { type PublicUrlOf, publicUrls } from './public-url.ts'

/** Everything that one configuration puts in force, except the backends. It is replaced, never changed. */
export interface Setup {
  readonly config: GatewayConfig
  /** The hash of the configuration file's bytes. */
  readonly hash: string
  readonly directory: string
  readonly hostNames: HostNames
  /** Host headers that `hostNames` has accepted, as received. */
  readonly knownHosts: Set<string>
  readonly authenticate: Verifier
  /** Checks proofs of possession; undefined if none are read. */
  readonly proofs: ProofGuard | undefined
  readonly ownIssuer: OwnIssuer
  /** Authorizes callers; undefined if no policies are configured, which allows everything. */
  readonly authorizer: Authorizer | undefined
  /** Scopes that single tools need; undefined if none does. */
  readonly scopeRules: ScopeRules | undefined
  readonly addressOf: ClientAddressOf
  readonly publicUrlOf: PublicUrlOf
  /** Returns the metadata for a request with these headers; undefined if callers are anonymous. */
  readonly resourceMetadata: (headers: IncomingHttpHeaders) => ProtectedResourceMetadata | undefined
  readonly serverInfo: Implementation
  /** The pages of other hosts that may call; undefined if none may. */
  readonly crossOrigin: CrossOrigin | undefined
  /** True for a proxy that withholds what is not approved: each of its answers says so. */
  readonly enforcesPins: boolean
  /** Headers of a client's request that are passed on to backends, in lower case. */
  readonly passedHeaders: readonly string[]
}

export interface SetupOptions {
  /** `http://host:port` of the public listener. */
  readonly listenerUrl: string
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
  /** The cached state of issuers, independent of the configuration. */
  readonly issuers: Issuers
  readonly ownIssuer: OwnIssuer
  /** The state of proofs, independent of the configuration. */
  readonly proofState: ProofState
}

/** Builds the setup of a configuration; `before` provides the parts that need not be built again. */
export function setUp(loaded: Loaded<GatewayConfig>, options: SetupOptions, before?: Setup): Setup {
  const { config, hash, directory } = loaded
  const { authServer } = config
  const { issuer, authorizationEndpointBaseUrl, upstreamProviders = [] } = authServer ?? {}
  const callbacks = authServer
    ? loginProviders(upstreamProviders).map((provider) => buildRedirectUri(authServer, provider))
    : []
  const urls = [config.resourceUrl, options.listenerUrl, issuer, authorizationEndpointBaseUrl, ...callbacks]
  const names = hostNames(urls, config.allowedHosts)
  const publicUrlOf = publicUrls(config, options.listenerUrl, names)
  const { oidc } = config.incomingAuth
  const addressOf = config.trustProxyHeaders === true ? forwardedAddress : peerAddress
  const own = ownResource(config, options.listenerUrl)
  options.ownIssuer.follow(loaded, own, addressOf)
  const isSame = sameAuthentication(loaded, before)
  const proofs = isSame ? before.proofs : proofGuard(config.incomingAuth.dpop, own.resource, options.proofState)
  const newAuthentication = () =>
    withPolicyIdentity(
      createAuthenticate(config.incomingAuth, {
        resourceMetadataUrl: (headers = {}) => publicUrlOf(headers).metadataUrl,
        log: options.log,
        observe: options.observe,
        issuers: options.issuers,
        addressOf,
        directory,
        local: options.ownIssuer.local,
        proofs,
      }),
      options.ownIssuer.upstreamTokens,
      config.authz?.primaryUpstreamProvider,
    )
  const authenticate = isSame ? before.authenticate : newAuthentication()
  // A card and `server/discover` say the same (SEP-2127).
  const { serverCard } = config
  const serverInfo = { name: serverCard?.name ?? config.name, version: serverCard?.version ?? options.version }
  return {
    config,
    hash,
    directory,
    hostNames: names,
    publicUrlOf,
    knownHosts: new Set(),
    authenticate,
    proofs,
    ownIssuer: options.ownIssuer,
    authorizer: createAuthorizer(config, before),
    scopeRules: readScopeRules(config, own.audience),
    addressOf,
    resourceMetadata: (headers) =>
      oidc === undefined
        ? undefined
        : protectedResourceMetadata({
            resource: publicUrlOf(headers).resource,
            issuers: authenticate.issuers(),
            scopes: oidc.scopes,
            proofs,
          }),
    serverInfo,
    crossOrigin: CrossOrigin.of(config),
    enforcesPins: config.role === 'proxy' && config.backends[0]?.pinning?.mode === 'enforce',
    passedHeaders: (config.passthroughHeaders ?? []).map((name) => name.toLowerCase()),
  }
}

/** Returns the resource of tokens of the gateway's own authorization server. Nothing of it comes from a request. */
export function ownResource(config: GatewayConfig, listenerUrl: string) {
  const { resourceUrl, endpointPrefix, incomingAuth, authz } = config
  const { resource } = publicUrls({ resourceUrl, endpointPrefix, incomingAuth }, listenerUrl, new Set())({})
  const { oidc, scopeRules = [], scopeImplies = [] } = incomingAuth
  const ofTools = [...scopeRules.flatMap(({ scopes }) => scopes), ...scopeImplies.flatMap(({ scope }) => scope)]
  return {
    resource,
    audience: oidc?.audience ?? resource,
    scopes: oidc?.scopes ?? [],
    toolScopes: [...new Set(ofTools)],
    ...(authz?.primaryUpstreamProvider !== undefined && { judgedBy: authz.primaryUpstreamProvider }),
  }
}

/** Keeps the authentication with its known keys and checked tokens if nothing about it changes. */
function sameAuthentication({ config, directory }: Loaded<GatewayConfig>, before?: Setup): before is Setup {
  const key = (config: GatewayConfig) => {
    const { incomingAuth, resourceUrl, endpointPrefix, trustProxyHeaders, allowedHosts, authServer, authz } = config
    const ownIssuer = authServer?.issuer
    const provider = authz?.primaryUpstreamProvider
    const hosts = trustProxyHeaders && [allowedHosts]
    return JSON.stringify([incomingAuth, resourceUrl, endpointPrefix, ownIssuer, hosts, provider])
  }
  return before !== undefined && before.directory === directory && key(before.config) === key(config)
}
