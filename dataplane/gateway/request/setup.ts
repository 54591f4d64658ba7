import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'pino'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { Loaded } from '../../config/load.ts'
import {
  createAuthenticate,
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  type Verifier,
} from '../../identity/index.ts'
import type { Issuers } from '../../identity/issuers.ts'
import { type HostNames, hostNames } from '../../server/hosts.ts'
import type { Observe } from '../../telemetry/observe.ts'
import { type Judge, judgeOf } from '../access/judge.ts'
import type { Implementation } from '../backends/session/session-peer.ts'
import { type ClientAddressOf, forwardedAddress, peerAddress } from './client-address.ts'
import { type PublicUrlOf, publicUrls } from './public-url.ts'

/** Everything that one configuration puts in force, apart from the backends; never changed, only replaced. */
export interface Setup {
  readonly config: GatewayConfig
  /** Of the configuration file's bytes. */
  readonly hash: string
  readonly directory: string
  readonly hostNames: HostNames
  /** Host headers that `hostNames` allows, as they came. */
  readonly knownHosts: Set<string>
  readonly authenticate: Verifier
  /** Decides what callers may do; undefined where no policies are configured: then everything. */
  readonly judge: Judge | undefined
  /** Where requests come from. */
  readonly addressOf: ClientAddressOf
  /** Where clients find the endpoint. */
  readonly publicUrlOf: PublicUrlOf
  /** Told in answer to a request with these headers; undefined where callers are anonymous. */
  readonly resourceMetadata: (headers: IncomingHttpHeaders) => ProtectedResourceMetadata | undefined
  readonly serverInfo: Implementation
  /** Headers of a client's request that go on to backends, in lower case. */
  readonly passedHeaders: readonly string[]
}

export interface SetupOptions {
  /** `http://host:port` of the public listener. */
  readonly listenerUrl: string
  readonly version: string
  readonly log: Logger
  readonly observe: Observe
  /** What is known of issuers, whatever the configuration. */
  readonly issuers: Issuers
}

/** Puts a configuration in force; `before` gives what need not be built anew. */
export function setUp(loaded: Loaded<GatewayConfig>, options: SetupOptions, before?: Setup): Setup {
  const { config, hash, directory } = loaded
  const names = hostNames([config.resourceUrl, options.listenerUrl], config.allowedHosts)
  const publicUrlOf = publicUrls(config, options.listenerUrl, names)
  const { oidc } = config.incomingAuth
  const addressOf = config.trustProxyHeaders === true ? forwardedAddress : peerAddress
  const authenticate = sameAuthentication(loaded, before)
    ? before.authenticate
    : createAuthenticate(config.incomingAuth, {
        resourceMetadataUrl: (headers = {}) => publicUrlOf(headers).metadataUrl,
        log: options.log,
        observe: options.observe,
        issuers: options.issuers,
        addressOf,
        directory,
      })
  const serverInfo = { name: config.name, version: options.version }
  return {
    config,
    hash,
    directory,
    hostNames: names,
    publicUrlOf,
    knownHosts: new Set(),
    authenticate,
    judge: judgeOf(config, before),
    addressOf,
    resourceMetadata: (headers) =>
      oidc === undefined
        ? undefined
        : protectedResourceMetadata({
            resource: publicUrlOf(headers).resource,
            issuers: authenticate.issuers(),
            scopes: oidc.scopes,
          }),
    serverInfo,
    passedHeaders: (config.passthroughHeaders ?? []).map((name) => name.toLowerCase()),
  }
}

/** Keys that are known and tokens that were checked stay where nothing about them changes. */
function sameAuthentication({ config, directory }: Loaded<GatewayConfig>, before?: Setup): before is Setup {
  const key = ({ incomingAuth, resourceUrl, endpointPrefix, trustProxyHeaders, allowedHosts }: GatewayConfig) =>
    JSON.stringify([incomingAuth, resourceUrl, endpointPrefix, trustProxyHeaders && [allowedHosts]])
  return before !== undefined && before.directory === directory && key(before.config) === key(config)
}
