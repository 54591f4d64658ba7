import { DEFAULT_GROUP } from '../../crds/index.ts'
import { isGroup } from '../../operator/cluster/files/group.ts'
import { type Given, type Io, type Option, UsageError } from '../command.ts'

export const groupOption: Option = {
  type: 'string',
  value: 'GROUP',
  description: 'API group of our kinds; also PORTICO_API_GROUP. Default: the one on which the manifests agree.',
}

/** The same for commands that read a cluster. */
export const clusterGroupOption = {
  ...groupOption,
  description: `API group of our kinds; also PORTICO_API_GROUP. Default: ${DEFAULT_GROUP}.`,
}

/**
 * Returns the API group: the option (`--api-group` by default), else PORTICO_API_GROUP, else none. Throws a UsageError
 * for an invalid group.
 */
export function readApiGroup(given: Given, io: Io, option = 'api-group'): string | undefined {
  const chosen = given.text(option)
  const group = chosen ?? (io.env['PORTICO_API_GROUP'] || undefined)
  if (group !== undefined && !isGroup(group)) {
    const origin = chosen === undefined ? 'PORTICO_API_GROUP' : `--${option}`
    throw new UsageError(`${origin} ${group}: a group is a DNS name with a dot, such as portico.dev`)
  }
  return group
}

/** Returns the given files and folders. Throws a UsageError if there are none. */
export function readManifestPaths(given: Given): readonly string[] {
  if (given.positionals.length === 0) throw new UsageError('files or folders of manifests are missing')
  return given.positionals
}
