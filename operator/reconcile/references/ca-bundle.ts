import type { Mounts } from '../../render/pod/mounts.ts'
import type { Resolver } from './resolver.ts'

/** The spec's shape of a CA bundle: a key of a ConfigMap. */
interface CaBundleRef {
  readonly configMapRef?: { readonly name: string; readonly key: string; readonly optional?: boolean }
}

/** Tells whether the bundle can be mounted: it exists and holds a certificate. An `optional` one may be absent. */
export function caBundleFound(ref: CaBundleRef, pointer: string, resolver: Resolver): boolean {
  const { problems, view, namespace } = resolver
  const { name = '', key = 'ca.crt', optional } = ref.configMapRef ?? {}
  if (name === '') {
    problems.add('Valid', 'ConfigInvalid', {
      pointer: `${pointer}/configMapRef/name`,
      joint: ' ',
      message: 'must be set',
    })
    return false
  }
  if (optional === true && view.configMap(namespace, name)?.data[key] === undefined) return false
  const text = resolver.configMapKey({ name, key })
  if (text === undefined) return false
  if (text.includes('-----BEGIN CERTIFICATE-----')) return true
  const message = `key ${JSON.stringify(key)} of ConfigMap ${JSON.stringify(name)} holds no PEM certificate`
  problems.add('ReferencesResolved', 'CABundleInvalid', { message })
  return false
}

/**
 * Mounts the bundle and returns its path for a configuration. An `optional` bundle is always mounted, so that its
 * creation changes the configuration but not the pods.
 */
export function caBundleFile(
  ref: CaBundleRef | undefined,
  pointer: string,
  resolver: Resolver,
  mounts: Mounts,
): string | undefined {
  if (ref === undefined) return undefined
  const { name = '', key = 'ca.crt', optional = false } = ref.configMapRef ?? {}
  const isFound = caBundleFound(ref, pointer, resolver)
  if (name === '' || (!isFound && !optional)) return undefined
  const path = mounts.caFile(name, key, { optional })
  return isFound ? path : undefined
}
