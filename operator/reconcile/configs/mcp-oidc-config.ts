import { isIP } from 'node:net'
import {
  type MCPOIDCConfig,
  mcpExternalAuthConfig,
  mcpOidcConfig,
  mcpRemoteProxy,
  mcpServer,
  type VirtualMCPServer,
  virtualMcpServer,
} from '../../../crds/index.ts'
import { oidcIssuer } from '../../../crds/settings/auth/oidc.ts'
import { API_SERVER } from '../../../crds/settings/gateway/defaults.ts'
import { classifyAddress } from '../../../dataplane/config/check/address.ts'
import { issuerFindings } from '../../../dataplane/config/check/issuer.ts'
import {
  isApiServer,
  isMountedToken,
  JWKS_TOKENS,
  SERVICE_ACCOUNT_TOKEN,
} from '../../../dataplane/config/check/token-path.ts'
import type { OidcConfig } from '../../../dataplane/config/gateway.ts'
import { type Mounts, startMounts } from '../../render/pod/containers.ts'
import { checkSupported, noteInvalid, type Places, validatePart } from '../outcome/findings.ts'
import type { ProblemDetail, Problems } from '../outcome/plan.ts'
import { type CheckConfig, findConfig, hasCaBundle, mountSettings, type Resolver } from '../references/references.ts'
import { planConfig } from './config.ts'

const checkOidcConfig: CheckConfig<typeof mcpOidcConfig> = (object, resolver) => {
  const { problems } = resolver
  const { type, inline, kubernetesServiceAccount: cluster } = object.spec
  checkSupported(mcpOidcConfig, object, problems)
  const issuer = type === 'inline' ? inline : cluster
  if (issuer === undefined) return problems.refuse(`/spec/${type}`, 'must be set')
  const privacy = { ...readPrivacy(object), ...(isOwnIssuer(object, resolver) ? { allowPrivateIP: true } : {}) }
  noteInvalid(issuerFindings({ ...issuer, ...privacy }, `/spec/${type}`), problems)
  if (type === 'inline' && inline) checkInline(inline, resolver)
  if (type === 'kubernetesServiceAccount' && cluster) checkCluster(cluster, problems)
  if (!problems.none) return
  const oidc = { ...buildIssuerSettings(object, resolver, startMounts('')), audience: 'any' }
  noteInvalid(validatePart({ incomingAuth: { type: 'oidc', oidc } }, buildPlaces(type)), problems)
}

const buildPlaces = (type: MCPOIDCConfig['spec']['type']): Places => ({
  '/incomingAuth/oidc': `/spec/${type}`,
  '/incomingAuth/oidc/introspection': `/spec/${type}`,
  '/incomingAuth/oidc/introspection/url': `/spec/${type}/introspectionUrl`,
  '/incomingAuth/oidc/serviceAccount/name': `/spec/${type}/serviceAccount`,
  '/incomingAuth/oidc/serviceAccount/namespace': `/spec/${type}/namespace`,
  '/incomingAuth/oidc/cluster/apiServer': `/spec/${type}/jwksUrl`,
})

/** Returns whether the issuer may be at a private address, and the name of the field that allows it. */
const readPrivacy = ({ spec: { inline, kubernetesServiceAccount: cluster } }: MCPOIDCConfig) =>
  inline
    ? { allowPrivateIP: inline.jwksAllowPrivateIP, allowedBy: 'jwksAllowPrivateIP' }
    : { allowPrivateIP: cluster?.useClusterAuth, allowedBy: 'useClusterAuth' }

/**
 * Tells whether a workload that names the config is itself this issuer: it has the keys in its process, so the address
 * may be private.
 */
function isOwnIssuer({ metadata, spec }: MCPOIDCConfig, { view, namespace }: Resolver): boolean {
  const findIssuers = (kind: string, name: string): (string | undefined)[] => {
    if (kind === 'VirtualMCPServer') return [view.get(virtualMcpServer, namespace, name)?.spec.authServerConfig?.issuer]
    const proxy =
      kind === 'MCPServer' ? view.get(mcpServer, namespace, name) : view.get(mcpRemoteProxy, namespace, name)
    const { authServerRef, externalAuthConfigRef } = proxy?.spec ?? {}
    return [authServerRef, externalAuthConfigRef].map(
      (ref) => ref && view.get(mcpExternalAuthConfig, namespace, ref.name)?.spec.embeddedAuthServer?.issuer,
    )
  }
  const issuer = spec.inline?.issuer
  const users = view.referrers(mcpOidcConfig, namespace, metadata.name)
  return issuer !== undefined && users.some(({ kind, name }) => findIssuers(kind, name).includes(issuer))
}

type Inline = NonNullable<MCPOIDCConfig['spec']['inline']>
type Cluster = NonNullable<MCPOIDCConfig['spec']['kubernetesServiceAccount']>

function checkInline(inline: Inline, resolver: Resolver): void {
  const { problems } = resolver
  const { caBundleRef, clientSecretRef, clientId, introspectionUrl, jwksAuthTokenPath: token } = inline
  if (caBundleRef) hasCaBundle(caBundleRef, '/spec/inline/caBundleRef', resolver)
  if (clientSecretRef) resolver.secretKey(clientSecretRef)
  if (clientSecretRef && clientId === undefined)
    problems.refuse('/spec/inline/clientId', 'must be set with clientSecretRef')
  if (introspectionUrl !== undefined && !clientSecretRef)
    problems.refuse('/spec/inline/introspectionUrl', 'needs clientSecretRef')
  if (token === undefined || isMountedToken(token)) return
  const at = '/spec/inline/jwksAuthTokenPath'
  if (token !== SERVICE_ACCOUNT_TOKEN)
    problems.refuse(at, `must be a file below ${JWKS_TOKENS}, by its plain path, or ${SERVICE_ACCOUNT_TOKEN}`)
  else if (!isAtApiServer(inline.jwksUrl ?? inline.issuer))
    problems.refuse(
      at,
      `that token is sent only to the cluster’s own API server (${API_SERVER}), and the keys are elsewhere`,
      ': ',
    )
}

function checkCluster({ issuer, jwksUrl, useClusterAuth }: Cluster, problems: Problems): void {
  const at = '/spec/kubernetesServiceAccount'
  if (useClusterAuth && jwksUrl !== undefined && !isAtApiServer(jwksUrl))
    problems.refuse(`${at}/jwksUrl`, `must be at the cluster’s own API server (${API_SERVER}), or useClusterAuth false`)
  if (!useClusterAuth && issuer === undefined) problems.refuse(`${at}/issuer`, 'must be set if useClusterAuth is false')
}

function isAtApiServer(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && isApiServer(url)
}

/** Returns a finding if the client id has no effect: only introspection uses it, which the secret turns on. */
function findUnused({ spec: { inline } }: MCPOIDCConfig): readonly ProblemDetail[] {
  if (inline?.clientId === undefined || inline.clientSecretRef) return []
  const message = 'has no effect without clientSecretRef, which turns introspection on'
  return [{ pointer: '/spec/inline/clientId', joint: ' ', message }]
}

export const reconcileMcpOidcConfig = planConfig(mcpOidcConfig, checkOidcConfig, findUnused)

/** The audience of ServiceAccount tokens if nothing names one: that of the widely used operator. */
const CLUSTER_AUDIENCE = 'toolhive'

type OidcReference = NonNullable<VirtualMCPServer['spec']['incomingAuth']['oidcConfigRef']>

/** Returns the audience. Two fields may set it; different values are a problem. */
function chooseAudience(
  config: MCPOIDCConfig,
  ref: OidcReference,
  besides: string | undefined,
  problems: Problems,
): string | undefined {
  if (besides !== undefined && ref.audience !== undefined && besides !== ref.audience) {
    problems.add('Valid', 'AudienceConflict', {
      message: 'audience and oidcConfigRef.audience differ: set one, or both alike',
    })
    return undefined
  }
  const audience = besides ?? ref.audience
  if (audience !== undefined) return audience
  if (config.spec.type === 'kubernetesServiceAccount') return CLUSTER_AUDIENCE
  problems.add('Valid', 'AudienceMissing', {
    message: 'an audience must be set: without one, tokens for any other server would be accepted',
  })
  return undefined
}

/**
 * Records a problem if not all clients can reach the resource URL. `protectedResourceAllowPrivateIP` allows a private
 * address.
 */
function checkResource({ resourceUrl }: OidcReference, { spec }: MCPOIDCConfig, problems: Problems): void {
  const host = URL.parse(resourceUrl ?? '')?.hostname.replace(/^\[|\]$/g, '') ?? ''
  if (isIP(host) === 0 || spec.type !== 'inline') return
  const addressClass = classifyAddress(host)
  if (addressClass === 'never')
    problems.add('Valid', 'ConfigInvalid', {
      message: `oidcConfigRef.resourceUrl: ${host} is an address at which nothing can be served`,
    })
  else if (addressClass === 'private' && !spec.inline?.protectedResourceAllowPrivateIP)
    problems.add('Valid', 'ConfigInvalid', {
      message: `oidcConfigRef.resourceUrl: ${host} is a private address; protectedResourceAllowPrivateIP allows it`,
    })
}

/** Builds the settings of the API server as the source of the keys; `url` is the API server's, if configured. */
function buildClusterSettings(
  url: string | undefined,
  caFile: string | undefined,
  mounts: Mounts,
): Pick<OidcConfig, 'cluster'> {
  const origin = url === undefined ? API_SERVER : new URL(url).origin
  return {
    cluster: {
      ...(origin === API_SERVER ? {} : { apiServer: origin }),
      tokenFile: mounts.clusterFile('token'),
      caFile: caFile ?? mounts.clusterFile('ca.crt'),
    },
  }
}

/** Fields by which others find an issuer's keys or introspect at it. The issuer itself has its keys in its process. */
const OF_OTHERS = ['jwksUrl', 'caBundleRef', 'jwksAuthTokenPath', 'introspectionUrl', 'clientSecretRef'] as const

const isOwn = ({ spec }: MCPOIDCConfig, issuer: string | undefined): boolean =>
  spec.type === 'inline' && issuer !== undefined && spec.inline?.issuer === issuer

/**
 * Returns the fields of the config that a workload ignores because it is the issuer itself. `pointer`: the field that
 * names the config.
 */
export function findUnusedByIssuer(
  ref: { readonly name: string } | undefined,
  { issuer, pointer }: { readonly issuer: string | undefined; readonly pointer: string },
  { view, namespace }: Pick<Resolver, 'view' | 'namespace'>,
): readonly ProblemDetail[] {
  const config = ref && view.get(mcpOidcConfig, namespace, ref.name)
  if (config === undefined || !isOwn(config, issuer)) return []
  const title = `MCPOIDCConfig ${JSON.stringify(config.metadata.name)}`
  return OF_OTHERS.filter((field) => config.spec.inline?.[field] !== undefined).map((field) => ({
    pointer,
    message: `${title}: /spec/inline/${field} has no effect here: the workload is the issuer itself and has the keys`,
  }))
}

function buildIssuerSettings(config: MCPOIDCConfig, resolver: Resolver, mounts: Mounts): Omit<OidcConfig, 'audience'> {
  const { inline, kubernetesServiceAccount: cluster } = config.spec
  if (config.spec.type === 'inline') return inline ? buildInlineSettings(inline, resolver, mounts) : {}
  const { issuer, jwksUrl, useClusterAuth, introspectionUrl, serviceAccount, namespace } = cluster ?? {}
  return {
    ...(issuer === undefined ? {} : { issuer }),
    ...(jwksUrl === undefined ? {} : { jwksUrl }),
    ...(useClusterAuth ? buildClusterSettings(jwksUrl, undefined, mounts) : {}),
    ...(introspectionUrl === undefined ? {} : { introspection: { url: introspectionUrl } }),
    ...(serviceAccount === undefined && namespace === undefined
      ? {}
      : {
          serviceAccount: {
            namespace: namespace ?? config.metadata.namespace,
            ...(serviceAccount === undefined ? {} : { name: serviceAccount }),
          },
        }),
  }
}

function buildInlineSettings(inline: Inline, resolver: Resolver, mounts: Mounts): Omit<OidcConfig, 'audience'> {
  const file = mountSettings(oidcIssuer, inline, { at: '/spec/inline', resolver, mounts })
  const { introspectionUrl: url, clientId, clientSecretFile, ...settings } = file
  const { caBundleFile, bearerTokenFile, audienceClaim, ...others } = settings
  const isClusters = bearerTokenFile === SERVICE_ACCOUNT_TOKEN
  return {
    ...others,
    ...(audienceClaim === undefined || audienceClaim === 'aud' ? {} : { audienceClaim }),
    ...(isClusters ? buildClusterSettings(inline.jwksUrl ?? inline.issuer, caBundleFile, mounts) : {}),
    ...(isClusters || caBundleFile === undefined ? {} : { caBundleFile }),
    ...(isClusters || bearerTokenFile === undefined ? {} : { bearerTokenFile }),
    // Introspection needs a client secret. A client id alone has no effect.
    ...(clientId === undefined || clientSecretFile === undefined
      ? {}
      : { introspection: { clientId, clientSecretFile, ...(url === undefined ? {} : { url }) } }),
  }
}

/** Returns the config as the issuer itself reads it. */
function withoutOthers(config: MCPOIDCConfig): MCPOIDCConfig {
  const inline = Object.entries(config.spec.inline ?? {}).filter(([field]) => !OF_OTHERS.some((one) => one === field))
  return { ...config, spec: { ...config.spec, inline: Object.fromEntries(inline) as Inline } }
}

/**
 * Builds the token validation of a gateway or proxy. `besides`: the other field for the audience. `ownIssuer`: of the
 * workload's own authorization server. Undefined, with problems recorded, if the config is unavailable.
 */
export function buildOidc(
  ref: OidcReference,
  { besides, ownIssuer }: { readonly besides?: string | undefined; readonly ownIssuer: string | undefined },
  resolver: Resolver,
  mounts: Mounts,
): OidcConfig | undefined {
  const config = findConfig(mcpOidcConfig, checkOidcConfig, ref.name, resolver)
  if (!config) return undefined
  const audience = chooseAudience(config, ref, besides, resolver.problems)
  if (audience === undefined) return undefined
  checkResource(ref, config, resolver.problems)
  return {
    ...buildIssuerSettings(isOwn(config, ownIssuer) ? withoutOthers(config) : config, resolver, mounts),
    audience,
    ...(ref.scopes === undefined ? {} : { scopes: [...ref.scopes] }),
  }
}
