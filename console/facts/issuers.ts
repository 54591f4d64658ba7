import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject, ObjectIndex } from '../../operator/model/index.ts'
import { registrySettings } from './registry.ts'

type Part = Readonly<Record<string, unknown>>

/** Returns the value at a path; undefined if there is none. */
const at = (value: unknown, ...path: readonly string[]): unknown =>
  path.reduce<unknown>((part, name) => (isObject(part) ? part[name] : undefined), value)

const texts = (...values: readonly unknown[]): readonly string[] =>
  values.filter((value): value is string => typeof value === 'string' && value !== '')

/**
 * Returns the issuers that a workload's configuration names: those of its MCPOIDCConfig, of its own authorization
 * server, or of the providers of a registry. The console logs in at no other issuer.
 */
export function findIssuers(object: KubernetesObject, objects: ObjectIndex): readonly string[] {
  const { kind, metadata } = object
  const spec = object['spec']
  const named = (of: string, ...path: readonly string[]): Part | undefined => {
    const name = at(spec, ...path, 'name')
    return typeof name === 'string' ? objects.get(of, metadata.namespace ?? 'default', name) : undefined
  }
  if (kind === 'MCPRegistry') {
    const providers = at(registrySettings(object), 'auth', 'oauth', 'providers')
    return texts(...(Array.isArray(providers) ? providers.map((provider) => at(provider, 'issuerUrl')) : []))
  }
  const oidc = named('MCPOIDCConfig', 'incomingAuth', 'oidcConfigRef') ?? named('MCPOIDCConfig', 'oidcConfigRef')
  const own = ['authServerRef', 'externalAuthConfigRef'].map((ref) => named('MCPExternalAuthConfig', ref))
  return texts(
    at(oidc, 'spec', 'inline', 'issuer'),
    at(spec, 'authServerConfig', 'issuer'),
    ...own.map((config) => at(config, 'spec', 'embeddedAuthServer', 'issuer')),
  )
}
