/** Finds the Debian packages that own files of this machine, as `dpkg` knows them. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'

export interface DebianPackage {
  readonly name: string
  readonly version: string
  readonly architecture: string
  readonly distribution: string
}

/** Returns the names by which dpkg may know a file: merged-usr systems link /usr into the root. */
const listNames = (path: string): string[] => [
  ...new Set([path, `/usr${path}`, path.replace(/^\/usr/, ''), ...(existsSync(path) ? [realpathSync(path)] : [])]),
]

const readDistribution = (): string =>
  /^ID=(\S+)$/m.exec(existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '')?.[1] ?? 'debian'

const FORMAT = ['binary:Package', 'Package', 'Version', 'Architecture'].map((field) => `$\{${field}}`).join(' ')

/** Returns the package of each path that has one; none on a machine without dpkg. */
export function debianPackages(paths: readonly string[]): ReadonlyMap<string, DebianPackage> {
  const found = new Map<string, DebianPackage>()
  if (paths.length === 0) return found
  const pathByName = new Map(paths.flatMap((path) => listNames(path).map((name) => [name, path] as const)))
  const { stdout: owners } = spawnSync('dpkg-query', ['--search', ...pathByName.keys()], { encoding: 'utf8' })
  const packageByFile = new Map(
    [...(owners ?? '').matchAll(/^(\S+): (\/.*)$/gm)].map((match) => [match[2] as string, match[1] as string]),
  )
  if (packageByFile.size === 0) return found
  const form = ['--show', '--showformat', `${FORMAT}\n`]
  const { stdout: versions } = spawnSync('dpkg-query', [...form, ...new Set(packageByFile.values())], {
    encoding: 'utf8',
  })
  const known = new Map(versions.split('\n').map((line) => [line.split(' ')[0] as string, line.split(' ')]))
  for (const [file, owner] of packageByFile) {
    const [, name, version, architecture] = known.get(owner) ?? []
    const path = pathByName.get(file)
    if (path !== undefined && name && version && architecture)
      found.set(path, { name, version, architecture, distribution: readDistribution() })
  }
  return found
}
