import { isGroup } from '../../operator/cluster/files/group.ts'
import { type Given, type Io, UsageError } from '../command.ts'

/**
 * The API group that the caller chose: the option (`--api-group` unless named otherwise), else PORTICO_API_GROUP, else
 * none. Throws a UsageError on what can't be a group.
 */
export function apiGroup(given: Given, io: Io, option = 'api-group'): string | undefined {
  const chosen = given.text(option)
  const group = chosen ?? (io.env['PORTICO_API_GROUP'] || undefined)
  if (group !== undefined && !isGroup(group)) {
    const origin = chosen === undefined ? 'PORTICO_API_GROUP' : `--${option}`
    throw new UsageError(`${origin} ${group}: a group is a DNS name with a dot, such as portico.dev`)
  }
  return group
}
