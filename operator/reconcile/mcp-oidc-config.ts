import { type MCPOIDCConfig, mcpOidcConfig } from '../../crds/index.ts'
import { issuerFindings } from '../../dataplane/config/check/issuer.ts'
import type { OidcConfig } from '../../dataplane/config/gateway.ts'
import type { Mounts } from '../render/mounts.ts'
import { caBundleFile, caBundleFound } from './ca-bundle.ts'
import { type CheckConfig, planConfig } from './config.ts'
import type { Problems } from './problems.ts'
import { referencedConfig } from './referenced-config.ts'
import type { Resolver } from './resolver.ts'
import { checkNotRefused } from './supported.ts'

export const checkOidcConfig: CheckConfig<typeof mcpOidcConfig> = (object, resolver) => {
  const { problems } = resolver
  const { type, inline, kubernetesServiceAccount } = object.spec
  checkNotRefused(mcpOidcConfig, object, problems)
  const issuer = type === 'inline' ? inline : kubernetesServiceAccount
  if (issuer === undefined) return problems.add('Valid', 'ConfigInvalid', `/spec/${type} must be set`)
  for (const { pointer, message } of issuerFindings(issuer, `/spec/${type}`))
    problems.add('Valid', 'ConfigInvalid', `${pointer} ${message}`)
  if (inline?.caBundleRef) caBundleFound(inline.caBundleRef, '/spec/inline/caBundleRef', resolver)
  if (inline?.clientSecretRef) resolver.secretKey(inline.clientSecretRef)
  if (inline?.clientSecretRef && inline.clientId === undefined)
    problems.add('Valid', 'ConfigInvalid', '/spec/inline/clientId must be set with clientSecretRef')
  if (inline?.introspectionUrl !== undefined && !inline.clientSecretRef)
    problems.add('Valid', 'ConfigInvalid', '/spec/inline/introspectionUrl needs clientSecretRef')
}

export const reconcileMcpOidcConfig = planConfig(mcpOidcConfig, checkOidcConfig)

/** Audience of ServiceAccount tokens where none is named (spec, MCPOIDCConfig). */
const CLUSTER_AUDIENCE = 'toolhive'

export interface OidcReference {
  readonly name: string
  readonly audience?: string | undefined
  readonly scopes?: readonly string[] | undefined
  readonly resourceUrl?: string | undefined
}

/** The one audience that the places for it agree on. */
function audienceOf(
  config: MCPOIDCConfig,
  ref: OidcReference,
  besides: string | undefined,
  problems: Problems,
): string | undefined {
  if (besides !== undefined && ref.audience !== undefined && besides !== ref.audience) {
    problems.add('Valid', 'AudienceConflict', 'audience and oidcConfigRef.audience differ: set one, or both alike')
    return undefined
  }
  const audience = besides ?? ref.audience
  if (audience !== undefined) return audience
  if (config.spec.type === 'kubernetesServiceAccount') return CLUSTER_AUDIENCE
  problems.add('Valid', 'AudienceMissing', 'an audience must be set: without one, a token for anything would do')
  return undefined
}

/** What an issuer's configuration has by its type. */
function issuerSettings({ spec }: MCPOIDCConfig, resolver: Resolver, mounts: Mounts): Omit<OidcConfig, 'audience'> {
  const { inline, kubernetesServiceAccount: cluster } = spec
  if (spec.type === 'kubernetesServiceAccount') {
    return {
      issuer: cluster?.issuer ?? '',
      ...(cluster?.jwksUrl === undefined ? {} : { jwksUrl: cluster.jwksUrl }),
      ...(cluster?.useClusterAuth
        ? {
            caBundleFile: mounts.clusterFile('ca.crt'),
            bearerTokenFile: mounts.clusterFile('token'),
            allowPrivateIP: true,
          }
        : {}),
    }
  }
  const ca = caBundleFile(inline?.caBundleRef, '/spec/inline/caBundleRef', resolver, mounts)
  return {
    issuer: inline?.issuer ?? '',
    ...(inline?.jwksUrl === undefined ? {} : { jwksUrl: inline.jwksUrl }),
    ...(ca === undefined ? {} : { caBundleFile: ca }),
    ...(inline?.jwksAuthTokenPath === undefined ? {} : { bearerTokenFile: inline.jwksAuthTokenPath }),
    ...introspectionSettings(inline, mounts),
    ...(inline?.jwksAllowPrivateIP ? { allowPrivateIP: true } : {}),
    ...(inline?.insecureAllowHTTP ? { insecureAllowHTTP: true } : {}),
  }
}

/** A client secret turns it on; without one, a client id says nothing (spec, MCPOIDCConfig). */
function introspectionSettings(
  inline: MCPOIDCConfig['spec']['inline'],
  mounts: Mounts,
): Pick<OidcConfig, 'introspection'> {
  const { clientId, clientSecretRef, introspectionUrl } = inline ?? {}
  if (clientId === undefined || !clientSecretRef) return {}
  const clientSecretFile = mounts.secretFile(clientSecretRef.name, clientSecretRef.key)
  return {
    introspection: {
      clientId,
      clientSecretFile,
      ...(introspectionUrl === undefined ? {} : { url: introspectionUrl }),
    },
  }
}

/**
 * Token validation of a gateway or proxy from the config that it refers to. `besides` is `incomingAuth.audience`, the
 * other place for the audience. Undefined, with the problems noted, where it can't be had.
 */
export function oidcSettings(
  ref: OidcReference,
  besides: string | undefined,
  resolver: Resolver,
  mounts: Mounts,
): OidcConfig | undefined {
  const config = referencedConfig(mcpOidcConfig, ref.name, checkOidcConfig, resolver)
  if (!config) return undefined
  const audience = audienceOf(config, ref, besides, resolver.problems)
  if (audience === undefined) return undefined
  return {
    ...issuerSettings(config, resolver, mounts),
    audience,
    ...(ref.scopes === undefined ? {} : { scopes: [...ref.scopes] }),
  }
}
