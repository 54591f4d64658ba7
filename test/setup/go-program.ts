/**
 * The programs that are built from Go modules of ours: `kube` (a Kubernetes control plane and node in one file), `helm`,
 * `dns` (CoreDNS) and `pause`.
 */
import { existsSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, digestOf, workFolder } from './cache.ts'
import { run } from './program.ts'

/** The Kubernetes that `kube` holds; go.mod names its modules. */
export const KUBERNETES = '1.36.3'

interface GoModule {
  readonly folder: string
  /** Leading part of the program's file name. */
  readonly prefix: string
  readonly linker: string
  readonly env: Readonly<Record<string, string>>
}

const tests = join(import.meta.dirname, '..')
const version = `-X k8s.io/component-base/version.gitVersion=v${KUBERNETES} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36`
const isStatic = { CGO_ENABLED: '0' }
const modules = {
  kube: { folder: join(tests, 'cluster/kube'), prefix: `kube-${KUBERNETES}`, linker: `-s -w ${version}`, env: {} },
  helm: { folder: join(tests, 'cluster/helm'), prefix: 'helm', linker: '-s -w', env: isStatic },
  dns: { folder: join(tests, 'e2e/go/dns'), prefix: 'dns', linker: '-s -w', env: isStatic },
  pause: { folder: join(tests, 'e2e/go/pause'), prefix: 'pause', linker: '-s -w', env: isStatic },
} satisfies Record<string, GoModule>

export type GoProgram = keyof typeof modules

/** Where the program is once it is built. */
export function goProgramPath(name: GoProgram): string {
  const { folder, prefix } = modules[name]
  const files = readdirSync(folder)
    .sort()
    .map((file) => join(folder, file))
  return join(cacheFolder(), `${prefix}-${digestOf(files, 12)}`)
}

/** Path of the program. Throws where set-up has not run. */
export function goProgram(name: GoProgram): string {
  const path = goProgramPath(name)
  if (!existsSync(path)) throw new Error(`no ${path}: \`make test\` builds it, and so does \`node test/setup/run.ts\``)
  return path
}

/** Builds the program; to be called by the holder of the lock alone. */
export async function buildGoProgram(name: GoProgram, progress: (state: string) => void): Promise<void> {
  const { folder, linker, env } = modules[name]
  // Distributions set GOTOOLCHAIN=local, by which an older Go refuses the module in place of fetching a newer one.
  const go = { program: 'go', cwd: folder, env: { GOTOOLCHAIN: 'auto', ...env } }
  let modulesFetched = 0
  const listed = await run({ ...go, args: ['list', '-deps', '.'] }, (line) => {
    if (line.startsWith('go: downloading')) progress(`${(modulesFetched += 1)} modules fetched`)
  })
  const total = listed.trim().split('\n').length
  const built = join(workFolder(), name)
  let packages = 0
  await run({ ...go, args: ['build', '-v', '-buildvcs=false', '-ldflags', linker, '-o', built, '.'] }, () => {
    packages += 1
    progress(packages < total ? `${packages} of ${total} Go packages compiled` : 'linking')
  })
  renameSync(built, goProgramPath(name))
}
