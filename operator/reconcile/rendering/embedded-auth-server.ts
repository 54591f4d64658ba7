import { mcpExternalAuthConfig } from '../../../crds/index.ts'
import { findPrimaries } from '../../../dataplane/config/authserver/provider.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import { reportGrants } from '../authserver/grants.ts'
import { checkIssuer, checkReplicas, warnOfLosses, warnOfNoIdentity } from '../authserver/rules.ts'
import { type AuthServerSpec, authServerSettings } from '../authserver/settings.ts'
import { reportTrustedIssuers } from '../authserver/trusted-issuers.ts'
import { providersServed } from '../configs/credential-settings.ts'
import { checkExternalAuthConfig } from '../configs/mcp-external-auth-config.ts'
import { unusedByIssuer } from '../configs/mcp-oidc-config.ts'
import { type Conditions, warnOfNoEffect } from '../outcome/plan.ts'
import { type Resolver, referencedConfig } from '../references/resolver.ts'

interface NamingSpec {
  readonly authServerRef?: { readonly name: string } | undefined
  readonly externalAuthConfigRef?: { readonly name: string } | undefined
}

export interface EmbeddedAuthServer {
  readonly config: string
  readonly pointer: string
  readonly spec: AuthServerSpec
}

/** Tells whether a credential reference leads to an authorization server. */
export function namesAuthServer(ref: { readonly name: string } | undefined, { view, namespace }: Resolver): boolean {
  return ref !== undefined && view.get(mcpExternalAuthConfig, namespace, ref.name)?.spec.type === 'embeddedAuthServer'
}

/**
 * Returns the authorization server of a proxy's object, by `authServerRef` or `externalAuthConfigRef`. Undefined if
 * there is none, or, as a problem, if it is unavailable.
 */
export function embeddedAuthServer(
  { authServerRef, externalAuthConfigRef }: NamingSpec,
  resolver: Resolver,
): EmbeddedAuthServer | undefined {
  const { problems } = resolver
  const isCredential = namesAuthServer(externalAuthConfigRef, resolver)
  if (authServerRef !== undefined && isCredential) {
    const message = 'names an authorization server, too: set only one of authServerRef and externalAuthConfigRef'
    problems.add('Valid', 'ConfigInvalid', { pointer: '/spec/externalAuthConfigRef', joint: ' ', message })
    return undefined
  }
  const ref = authServerRef ?? (isCredential ? externalAuthConfigRef : undefined)
  const found =
    ref && referencedConfig({ kind: mcpExternalAuthConfig, check: checkExternalAuthConfig }, ref.name, resolver)
  if (ref === undefined || found === undefined) return undefined
  const pointer = authServerRef === undefined ? '/spec/externalAuthConfigRef' : '/spec/authServerRef'
  const { type, embeddedAuthServer: spec } = found.spec
  if (type === 'embeddedAuthServer' && spec !== undefined) return { config: ref.name, pointer, spec }
  const message = `MCPExternalAuthConfig ${JSON.stringify(ref.name)} is of type ${type}, not embeddedAuthServer`
  problems.add('Valid', 'ConfigInvalid', { pointer, message })
  return undefined
}

/** Returns the provider whose token replaces the caller's token towards the server; undefined if there is none. */
export const injectedProvider = ({ spec }: EmbeddedAuthServer): string | undefined =>
  spec.disableUpstreamTokenInjection ? undefined : findPrimaries(spec)[0]?.name

interface ProxyObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
  readonly spec: NamingSpec & {
    readonly oidcConfigRef?: { readonly name: string } | undefined
    readonly replicas?: number | undefined
    readonly backendReplicas?: number | undefined
  }
}

/** Builds the `authServer` of a proxy's configuration. Settings that can't be served are recorded as problems. */
export function proxyAuthServer(
  { kind, metadata, spec }: ProxyObject,
  { oidc }: GatewayConfig['incomingAuth'],
  resolver: Resolver,
  mounts: Mounts,
): Pick<GatewayConfig, 'authServer'> {
  const found = embeddedAuthServer(spec, resolver)
  if (found === undefined) return {}
  const { problems } = resolver
  if (spec.oidcConfigRef === undefined)
    problems.add('Valid', 'ConfigInvalid', {
      pointer: '/spec/oidcConfigRef',
      joint: ' ',
      message: 'must be set beside an authorization server: it checks its tokens',
    })
  if ((found.spec.primaryProviders?.length ?? 0) > 1 && injectedProvider(found) !== undefined)
    problems.add('Valid', 'ConfigInvalid', {
      pointer: found.pointer,
      message: `MCPExternalAuthConfig ${JSON.stringify(found.config)} has several primaryProviders, of which a user has the token of one: set disableUpstreamTokenInjection, or put the servers behind a VirtualMCPServer`,
    })
  checkIssuer(found.spec, { pointer: found.pointer, oidcConfig: spec.oidcConfigRef?.name, oidc }, problems)
  checkReplicas(found.spec, spec.replicas ?? spec.backendReplicas, problems)
  const place = { owner: { kind, metadata }, at: '/spec/embeddedAuthServer' }
  return { authServer: authServerSettings(found.spec, place, resolver, mounts) }
}

/** Returns the issuer of the authorization server that a proxy's object names; undefined if it names none. */
export const findOwnIssuer = (
  { authServerRef, externalAuthConfigRef }: NamingSpec,
  { view, namespace }: Resolver,
): string | undefined =>
  [authServerRef, externalAuthConfigRef]
    .map((ref) => ref && view.get(mcpExternalAuthConfig, namespace, ref.name)?.spec.embeddedAuthServer?.issuer)
    .find((issuer) => issuer !== undefined)

/** Warns about a proxy's logins: what a restart loses, unrecognized users, and settings without effect. */
export function warnOfLogins(
  { kind, metadata, spec }: ProxyObject,
  config: GatewayConfig | undefined,
  resolver: Resolver,
  conditions: Conditions,
): void {
  const found = embeddedAuthServer(spec, resolver)
  if (found === undefined) return
  const seen = resolver.view.observe(kind, metadata.namespace, metadata.name)
  const at = `MCPExternalAuthConfig ${JSON.stringify(found.config)}`
  reportTrustedIssuers(found.spec, seen, conditions)
  warnOfLosses(found.spec, { at, running: seen?.replicas }, conditions)
  warnOfNoIdentity(found.spec, at, conditions)
  // Without a credential of its own the server gets the token of each login, which no setting could change.
  const isOwn = spec.externalAuthConfigRef !== undefined && !namesAuthServer(spec.externalAuthConfigRef, resolver)
  const served = isOwn ? providersServed(config) : []
  reportGrants(found.spec, `${at}: /spec/embeddedAuthServer`, conditions, served)
  const place = { issuer: found.spec.issuer, pointer: '/spec/oidcConfigRef' }
  warnOfNoEffect(unusedByIssuer(spec.oidcConfigRef, place, resolver), conditions)
}
