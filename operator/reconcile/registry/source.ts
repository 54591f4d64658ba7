import type { MCPRegistry } from '../../../crds/index.ts'
import type { SourceConfig } from '../../../dataplane/config/registry/registry.ts'
import { sortedKeys } from '../../render/object/canonical.ts'
import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from '../references/resolver.ts'

type SourceSpec = NonNullable<MCPRegistry['spec']['sources']>[number]

/** Where a pod finds its API server. */
const API_SERVER = 'https://kubernetes.default.svc'

/** The API server, with the pod's own token. */
export function apiServerOf(mounts: Mounts) {
  return { url: API_SERVER, tokenFile: mounts.clusterFile('token'), caFile: mounts.clusterFile('ca.crt') }
}

/** A source of the configuration file: Secrets and ConfigMaps become files. */
export function sourceOf(source: SourceSpec, resolver: Resolver, mounts: Mounts, group: string): SourceConfig {
  const { name, git, api, file, managed, kubernetes, syncPolicy, filter, claims } = source
  return {
    name,
    ...(git && { git: gitOf(git, resolver, mounts) }),
    ...(api && { api: apiOf(api, resolver, mounts) }),
    ...(file && { file: fileOf(file, resolver, mounts) }),
    ...(managed && { managed: {} }),
    ...(kubernetes && {
      kubernetes: {
        namespaces: kubernetes.namespaces === undefined ? [resolver.namespace] : [...kubernetes.namespaces],
        group,
        apiServer: apiServerOf(mounts),
      },
    }),
    ...(syncPolicy && { syncPolicy: { interval: syncPolicy.interval } }),
    ...(filter && { filter: sortedKeys(filter) }),
    ...(claims && { claims: sortedKeys(claims) }),
  }
}

function gitOf({ auth, ...place }: NonNullable<SourceSpec['git']>, resolver: Resolver, mounts: Mounts) {
  if (auth === undefined) return sortedKeys(place)
  const { name, key } = auth.passwordSecretRef
  resolver.secretKey(auth.passwordSecretRef)
  return { ...sortedKeys(place), auth: { username: auth.username, passwordFile: mounts.secretFile(name, key) } }
}

function apiOf({ headers, ...place }: NonNullable<SourceSpec['api']>, resolver: Resolver, mounts: Mounts) {
  if (headers === undefined) return sortedKeys(place)
  return {
    ...sortedKeys(place),
    headers: headers.map(({ name, valueSecretRef }) => {
      resolver.secretKey(valueSecretRef)
      return { name, valueFile: mounts.secretFile(valueSecretRef.name, valueSecretRef.key) }
    }),
  }
}

function fileOf({ configMapRef, ...place }: NonNullable<SourceSpec['file']>, resolver: Resolver, mounts: Mounts) {
  if (configMapRef === undefined) return sortedKeys(place)
  resolver.configMapKey(configMapRef)
  return { path: mounts.sourceFile(configMapRef.name, configMapRef.key) }
}
