import { type Given, type Option, UsageError } from '../command.ts'

/** The option that every command over manifests has. */
export const groupOption: Option = {
  type: 'string',
  value: 'GROUP',
  description: 'API group of our kinds; also PORTICO_API_GROUP. Default: the one on which the manifests agree.',
}

/** The files and folders given. Throws a UsageError when there are none. */
export function manifestPaths(given: Given): readonly string[] {
  if (given.positionals.length === 0) throw new UsageError('files or folders of manifests are missing')
  return given.positionals
}
