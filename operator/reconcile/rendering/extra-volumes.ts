import { sortedKeys } from '../../render/object/canonical.ts'
import { MOUNT_ROOT } from '../../render/pod/mounts.ts'
import type { Problems } from '../outcome/plan.ts'
import type { Resolver } from '../references/resolver.ts'

type Fields = Readonly<Record<string, unknown>>

interface VolumeFields {
  readonly volumes?: readonly Fields[]
  readonly volumeMounts?: readonly Fields[]
}

export interface ExtraVolumes {
  readonly volumes: readonly object[]
  readonly volumeMounts: readonly object[]
}

/** Prefix of our own volume names; see `startMounts`. */
const OUR_PREFIX = 'portico-'

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns a pod's own volumes and their mounts in our container. Collisions with ours, the node's disk and missing
 * objects are problems.
 */
export function extraVolumes(
  { volumes = [], volumeMounts = [] }: VolumeFields,
  ownPaths: readonly string[],
  resolver: Resolver,
): ExtraVolumes {
  for (const [index, volume] of volumes.entries()) checkVolume(volume, `/spec/volumes/${index}`, resolver)
  const names = new Set(volumes.map(({ name }) => name))
  const paths = [MOUNT_ROOT, ...ownPaths]
  for (const [index, mount] of volumeMounts.entries())
    checkMount(mount, `/spec/volumeMounts/${index}`, { names, paths }, resolver.problems)
  return { volumes: sortedKeys(volumes), volumeMounts: sortedKeys(volumeMounts) }
}

function checkVolume(volume: Fields, at: string, { problems, ...resolver }: Resolver): void {
  const { name, hostPath, secret, configMap } = volume
  const invalid = (pointer: string, message: string) => problems.add('Valid', 'ConfigInvalid', { pointer, message })
  if (typeof name !== 'string') invalid(at, 'must have a name')
  else if (name.startsWith(OUR_PREFIX)) invalid(`${at}/name`, `names that begin with ${OUR_PREFIX} are reserved`)
  if (hostPath !== undefined)
    problems.add('Valid', 'NotSupported', {
      pointer: `${at}/hostPath`,
      message: 'volumes of the node are not supported; use another type of volume',
    })
  if (isFields(secret) && typeof secret['secretName'] === 'string' && secret['optional'] !== true)
    resolver.secret(secret['secretName'])
  if (isFields(configMap) && typeof configMap['name'] === 'string' && configMap['optional'] !== true)
    resolver.configMap(configMap['name'])
}

function checkMount(
  { name, mountPath }: Fields,
  at: string,
  taken: { readonly names: ReadonlySet<unknown>; readonly paths: readonly string[] },
  problems: Problems,
): void {
  const invalid = (pointer: string, message: string) => problems.add('Valid', 'ConfigInvalid', { pointer, message })
  if (!taken.names.has(name)) invalid(`${at}/name`, `the pod has no volume ${JSON.stringify(name)}`)
  if (typeof mountPath !== 'string' || !mountPath.startsWith('/'))
    invalid(`${at}/mountPath`, 'must be an absolute path')
  else if (taken.paths.some((path) => isAtOrAbove(mountPath, path) || isAtOrAbove(path, mountPath)))
    invalid(`${at}/mountPath`, `${mountPath} would hide what the registry needs`)
}

/** Tells whether a path is equal to another one or above it. */
function isAtOrAbove(path: string, other: string): boolean {
  const folder = path.replace(/\/+$/, '')
  return other === folder || other.startsWith(`${folder}/`)
}
