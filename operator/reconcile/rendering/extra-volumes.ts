import { sortedKeys } from '../../render/object/canonical.ts'
import { MOUNT_ROOT } from '../../render/pod/mounts.ts'
import type { Problems } from '../outcome/problems.ts'
import type { Resolver } from '../references/resolver.ts'

type Fields = Readonly<Record<string, unknown>>

/** What the spec says of volumes. */
interface VolumeFields {
  readonly volumes?: readonly Fields[]
  readonly volumeMounts?: readonly Fields[]
}

export interface ExtraVolumes {
  readonly volumes: readonly object[]
  readonly volumeMounts: readonly object[]
}

/** Volumes with names of ours; see `startMounts`. */
const OUR_PREFIX = 'portico-'

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A pod's own volumes and where our container sees them. What would collide with ours, opens the node's disk or names what
 * is not there is noted; whatever else is wrong with them the API server says.
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
  else if (name.startsWith(OUR_PREFIX)) invalid(`${at}/name`, `names that begin with ${OUR_PREFIX} are ours`)
  if (hostPath !== undefined)
    problems.add('Valid', 'NotSupported', {
      pointer: `${at}/hostPath`,
      message: 'volumes of the node are not supported; use another kind',
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
  if (!taken.names.has(name)) invalid(`${at}/name`, `there is no volume ${JSON.stringify(name)}`)
  if (typeof mountPath !== 'string' || !mountPath.startsWith('/'))
    invalid(`${at}/mountPath`, 'must be an absolute path')
  else if (taken.paths.some((path) => isAtOrAbove(mountPath, path) || isAtOrAbove(path, mountPath)))
    invalid(`${at}/mountPath`, `${mountPath} would hide what the registry needs`)
}

/** Whether a path is another one or above it. */
function isAtOrAbove(path: string, other: string): boolean {
  const folder = path.replace(/\/+$/, '')
  return other === folder || other.startsWith(`${folder}/`)
}
