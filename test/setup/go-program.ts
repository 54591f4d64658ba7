/**
 * The programs that are built from Go modules of ours: `kube` (a Kubernetes control plane and node in one file), `helm`,
 * `dns` (CoreDNS) and `pause`.
 */
import { existsSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, digestOf, workFolder } from './cache.ts'
import { kubernetesBuild } from './kubernetes.ts'
import { run } from './program.ts'

interface GoModule {
  readonly folder: string
  /** Files of the folder that the program is made of; all of them where it is not said. */
  readonly files?: readonly string[]
  /** Leading part of the program's file name. */
  readonly prefix: string
  /** Arguments of `go list` and `go build`. */
  readonly flags?: readonly string[]
  readonly linker: string
  readonly env: Readonly<Record<string, string>>
}

const tests = join(import.meta.dirname, '..')
const isStatic = { CGO_ENABLED: '0' }

export type GoProgram = 'kube' | 'helm' | 'dns' | 'pause'

function moduleOf(name: GoProgram): GoModule {
  const plain = (folder: string): GoModule => ({
    folder: join(tests, folder),
    prefix: name,
    linker: '-s -w',
    env: isStatic,
  })
  if (name === 'kube') return { ...plain('cluster/kube'), ...kubernetesBuild(), env: {} }
  return plain(name === 'helm' ? 'cluster/helm' : `e2e/go/${name}`)
}

/** Where the program is once it is built. */
export function goProgramPath(name: GoProgram): string {
  const { folder, prefix, files = readdirSync(folder) } = moduleOf(name)
  const paths = files.toSorted().map((file) => join(folder, file))
  return join(cacheFolder(), `${prefix}-${digestOf(paths, 12)}`)
}

/** Path of the program. Throws where set-up has not run. */
export function goProgram(name: GoProgram): string {
  const path = goProgramPath(name)
  if (!existsSync(path)) throw new Error(`no ${path}: \`make test\` builds it, and so does \`node test/setup/run.ts\``)
  return path
}

/** Builds the program; to be called by the holder of the lock alone. */
export async function buildGoProgram(name: GoProgram, progress: (state: string) => void): Promise<void> {
  const { folder, flags = [], linker, env } = moduleOf(name)
  // Distributions set GOTOOLCHAIN=local, by which an older Go refuses the module in place of fetching a newer one.
  const go = { program: 'go', cwd: folder, env: { GOTOOLCHAIN: 'auto', ...env } }
  let modulesFetched = 0
  const listed = await run({ ...go, args: ['list', ...flags, '-deps', '.'] }, (line) => {
    if (line.startsWith('go: downloading')) progress(`${(modulesFetched += 1)} modules fetched`)
  })
  const total = listed.trim().split('\n').length
  const built = join(workFolder(), name)
  let packages = 0
  const given = [...flags, '-v', '-buildvcs=false', '-ldflags', linker, '-o', built, '.']
  await run({ ...go, args: ['build', ...given] }, () => {
    packages += 1
    progress(packages < total ? `${packages} of ${total} Go packages compiled` : 'linking')
  })
  renameSync(built, goProgramPath(name))
}
