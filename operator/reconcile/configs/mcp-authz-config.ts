import { mcpAuthzConfig } from '../../../crds/index.ts'
import type { authzConfig } from '../../../crds/settings/auth/authz.ts'
import type { Static } from '../../../crds/settings/schema.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { judgedProviderProblem } from '../authserver/rules.ts'
import { checkSupported } from '../outcome/findings.ts'
import { type Conditions, joined } from '../outcome/plan.ts'
import { type CheckConfig, type KeyRef, type Resolver, referencedConfig } from '../references/resolver.ts'
import { cedarFile, cedarSettings } from './cedar.ts'
import { planConfig } from './config.ts'

const checkAuthzConfig: CheckConfig<typeof mcpAuthzConfig> = (object, { problems }) => {
  checkSupported(mcpAuthzConfig, object, problems)
  if (object.spec.type !== 'cedarv1') return
  const settings = cedarSettings(object.spec.config, '/spec/config')
  for (const detail of settings.problems) problems.add('Valid', 'ConfigInvalid', detail)
}

export const reconcileMcpAuthzConfig = planConfig(mcpAuthzConfig, checkAuthzConfig)

type AuthzConfigSpec = Static<ReturnType<typeof authzConfig>>

export interface AuthzFields {
  readonly authzConfig?: AuthzConfigSpec | undefined
  readonly authzConfigRef?: { readonly name: string } | undefined
}

/**
 * Builds the policies of a workload. Unavailable policies are a problem: running pods keep theirs, and a workload is
 * never served without them.
 */
export function authzSettings(
  fields: AuthzFields,
  { at, authServer }: { readonly at: string; readonly authServer?: GatewayConfig['authServer'] },
  resolver: Resolver,
): Pick<GatewayConfig, 'authz'> {
  const found = buildPolicies(fields, at, resolver)
  const provider = found.authz?.primaryUpstreamProvider
  const problem = provider === undefined ? undefined : judgedProviderProblem(provider, authServer)
  const pointer = `${at}/${fields.authzConfigRef === undefined ? 'authzConfig' : 'authzConfigRef'}`
  if (problem !== undefined) resolver.problems.add('Valid', 'UpstreamProviderUnknown', { pointer, message: problem })
  return found
}

function buildPolicies(fields: AuthzFields, at: string, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const { authzConfig, authzConfigRef } = fields
  if (authzConfigRef !== undefined) return sharedAuthz(authzConfigRef.name, resolver)
  if (authzConfig === undefined) return {}
  const { type, configMap, inline, groupClaimName, roleClaimName, groupEntityType } = authzConfig
  const claims = pickDefined({ groupClaimName, roleClaimName, groupEntityType })
  if (type === 'configMap' && configMap !== undefined) return authzInConfigMap(configMap, claims, resolver)
  const { policies, entitiesJson, primaryUpstreamProvider: provider } = inline ?? { policies: [], entitiesJson: '[]' }
  const source = { policies, entitiesJson, ...(provider === undefined ? {} : { primaryUpstreamProvider: provider }) }
  const { authz, problems } = cedarSettings({ ...source, ...claims }, `${at}/authzConfig/inline`)
  for (const detail of problems) resolver.problems.add('Valid', 'ConfigInvalid', detail)
  return authz === undefined ? {} : { authz }
}

const pickDefined = (fields: object): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined))

function sharedAuthz(name: string, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const config = referencedConfig({ kind: mcpAuthzConfig, check: checkAuthzConfig }, name, resolver)
  const authz = config && cedarSettings(config.spec.config, '/spec/config').authz
  return authz === undefined ? {} : { authz }
}

function authzInConfigMap(ref: KeyRef, claims: object, resolver: Resolver): Pick<GatewayConfig, 'authz'> {
  const text = resolver.configMapKey(ref)
  if (text === undefined) return {}
  const { authz, problems } = cedarFile(text)
  const about = { kind: 'ConfigMap', name: ref.name }
  const message = `ConfigMap ${JSON.stringify(ref.name)}, ${ref.key}: ${joined(problems)}`
  if (problems.length > 0) resolver.problems.add('ReferencesResolved', 'ReferenceInvalid', { about, message })
  return authz === undefined ? {} : { authz: { ...authz, ...claims } }
}

/** Warns of policies on anonymous callers, who all get the same decision: authentication may have been intended. */
export function warnOfAuthz(fields: AuthzFields, isAnonymous: boolean, conditions: Conditions): void {
  if (!isAnonymous || (fields.authzConfig ?? fields.authzConfigRef) === undefined) return
  const message = 'callers are anonymous: policies see all of them as Client::"anonymous", without groups and claims'
  conditions.set('AuthzWarning', 'True', 'AnonymousCallers', message)
}
