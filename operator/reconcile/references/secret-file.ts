import type { Mounts } from '../../render/pod/mounts.ts'
import type { KeyRef, Resolver } from './resolver.ts'

/** Path of a Secret's key for a configuration, mounted; undefined where none is named or, noted, it isn't there. */
export const secretFile = (ref: KeyRef | undefined, resolver: Resolver, mounts: Mounts): string | undefined =>
  ref !== undefined && resolver.secretKey(ref) ? mounts.secretFile(ref.name, ref.key) : undefined
