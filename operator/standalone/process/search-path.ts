import { delimiter, dirname, join } from 'node:path'

/**
 * PATH for a local command, as npm has it for scripts: programs of packages that are installed in the command's folder
 * or above come first, then the Node that runs Portico, then what was there.
 */
export function searchPath(folder: string, node: string, before: string | undefined): string {
  const bins: string[] = []
  for (let at = folder; ; at = dirname(at)) {
    bins.push(join(at, 'node_modules', '.bin'))
    if (dirname(at) === at) break
  }
  return [...bins, dirname(node), before ?? ''].filter((part) => part !== '').join(delimiter)
}
