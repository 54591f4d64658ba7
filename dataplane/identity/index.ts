import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { GatewayConfig } from '../config/gateway.ts'
import type { Observe } from '../telemetry/observe.ts'
import { type Authenticate, anonymous } from './caller.ts'
import { verifyTokens } from './verify.ts'

export type { Authenticate, Caller } from './caller.ts'
export {
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  resourceMetadataPaths,
  resourceMetadataUrl,
} from './resource-metadata.ts'
export { resourceMetadataRoutes } from './resource-metadata-routes.ts'

export interface AuthenticateOptions {
  /** Absolute URL of the protected resource metadata, told in challenges; undefined where no public URL is known. */
  resourceMetadataUrl(): string | undefined
  readonly log: Logger
  readonly observe: Observe
  /** Folder that file paths of the configuration are relative to. */
  readonly directory?: string
}

/** Makes the function that tells who calls. `close` ends its connections to the issuer. */
export function createAuthenticate(
  { oidc }: GatewayConfig['incomingAuth'],
  { directory = '.', ...options }: AuthenticateOptions,
): Authenticate & { close(): Promise<void> } {
  if (oidc === undefined) return Object.assign(() => anonymous, { close: async () => {} })
  const fileOf = (path: string | undefined) => (path === undefined ? undefined : resolve(directory, path))
  const provider = {
    ...oidc,
    caBundleFile: fileOf(oidc.caBundleFile),
    bearerTokenFile: fileOf(oidc.bearerTokenFile),
    introspection: oidc.introspection && {
      ...oidc.introspection,
      clientSecretFile: resolve(directory, oidc.introspection.clientSecretFile),
    },
  }
  return verifyTokens([provider], { realm: oidc.issuer, scopes: oidc.scopes, ...options })
}
