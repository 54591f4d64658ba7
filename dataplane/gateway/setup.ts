import type { Logger } from 'pino'
import type { GatewayConfig } from '../config/gateway.ts'
import type { Loaded } from '../config/load.ts'
import {
  type Authenticate,
  createAuthenticate,
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  resourceMetadataUrl,
} from '../identity/index.ts'
import { type HostNames, hostNames } from '../server/hosts.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { Implementation } from './backends/backend.ts'

/** Everything that one configuration puts in force, apart from the backends; never changed, only replaced. */
export interface Setup {
  readonly config: GatewayConfig
  /** Of the configuration file's bytes. */
  readonly hash: string
  readonly directory: string
  readonly hostNames: HostNames
  /** Host headers that `hostNames` allows, as they came. */
  readonly knownHosts: Set<string>
  readonly authenticate: Authenticate & { close(): Promise<void> }
  /** Undefined where callers are anonymous. */
  readonly resourceMetadata: ProtectedResourceMetadata | undefined
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
}

/** Puts a configuration in force; `before` gives what need not be built anew. */
export function setUp(loaded: Loaded<GatewayConfig>, options: SetupOptions, before?: Setup): Setup {
  const { config, hash, directory } = loaded
  const resource = config.resourceUrl ?? `${options.listenerUrl}/mcp`
  const { oidc } = config.incomingAuth
  const serverInfo = { name: config.name, version: options.version }
  return {
    config,
    hash,
    directory,
    hostNames: hostNames([config.resourceUrl, options.listenerUrl], config.allowedHosts),
    knownHosts: new Set(),
    authenticate: sameAuthentication(loaded, before)
      ? before.authenticate
      : createAuthenticate(config.incomingAuth, {
          resourceMetadataUrl: () => resourceMetadataUrl(resource),
          log: options.log,
          observe: options.observe,
          directory,
        }),
    resourceMetadata:
      oidc === undefined
        ? undefined
        : protectedResourceMetadata({ resource, issuers: [oidc.issuer], scopes: oidc.scopes }),
    serverInfo,
    passedHeaders: (config.passthroughHeaders ?? []).map((name) => name.toLowerCase()),
  }
}

/** Keys that are known and tokens that were checked stay where nothing about them changes. */
function sameAuthentication({ config, directory }: Loaded<GatewayConfig>, before?: Setup): before is Setup {
  const key = (of: GatewayConfig) => JSON.stringify([of.incomingAuth, of.resourceUrl])
  return before !== undefined && before.directory === directory && key(before.config) === key(config)
}
