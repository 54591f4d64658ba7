/**
 * The programs that are built from our Go modules: `kube` (a Kubernetes control plane and node in one file), `helm`,
 * `dns` (CoreDNS), `pause`, `flux-apply` (the library with which Flux applies and judges objects), and the tools of
 * `make gitops`: `flux` (its kustomize-controller) and `argo-cd` (its application controller and repository server).
 *
 * Helm, Flux’s library and CoreDNS require the modules of the newest Kubernetes in its versions, and all are built with
 * the same flags. So Go compiles what they share once, which saves six of seventeen minutes of processor time.
 */
import { existsSync, globSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, hashFiles, workFolder } from './cache.ts'
import { kubernetesBuild } from './kubernetes.ts'
import { run } from './program.ts'

interface GoModule {
  readonly folder: string
  /** Files of the folder from which the program is built; default all of them. */
  readonly files?: readonly string[]
  /** Prefix of the program's file name. */
  readonly prefix: string
  /** Arguments of `go list` and `go build`. */
  readonly flags?: readonly string[]
  readonly linker: string
  /** The Go module's file, if it is not go.mod. */
  readonly package?: string
  /** Files with the program's CRDs, as patterns in folders of modules `path@version`. */
  readonly crds?: Readonly<Record<string, string>>
}

const tests = join(import.meta.dirname, '..')
/** Builds without C, for images that have no C library. */
const STATIC = { CGO_ENABLED: '0' }
/** Compiles without data for debuggers, which the linker drops: a seventh less time. */
const PLAIN = '-gcflags=all=-dwarf=0'

export type GoProgram = 'kube' | 'helm' | 'dns' | 'pause' | 'flux-apply' | 'flux' | 'argo-cd'

const FLUX = 'github.com/fluxcd/kustomize-controller'
const FLUX_SOURCES = 'github.com/fluxcd/source-controller'
const ARGO_CD = 'github.com/argoproj/argo-cd/v3'

/** Returns the versions of the modules that a Go module file requires, after its replacements. */
export function versionsIn(file: string): ReadonlyMap<string, string> {
  const text = readFileSync(file, 'utf8')
  const versions = [...text.matchAll(/^(?:require )?\s*([\w./~-]+) (v\S+)/gm), ...text.matchAll(/=> (\S+) (v\S+)/g)]
  return new Map(versions.map(([, path, version]) => [path as string, version as string]))
}

/** Returns the version of a module that a program is built with, from its go.mod. */
function versionIn(folder: string, module: string): string {
  const version = versionsIn(join(folder, 'go.mod')).get(module)
  if (!version) throw new Error(`${folder}/go.mod does not require ${module}`)
  return version
}

/** The tools of `make gitops`. */
export const fluxVersion = () => versionIn(join(tests, 'e2e/go/flux'), FLUX)
export const argoCdVersion = () => versionIn(join(tests, 'e2e/go/argo-cd'), ARGO_CD)

function findModule(name: GoProgram): GoModule {
  const plain = (folder: string): GoModule => ({
    folder: join(tests, folder),
    prefix: name,
    linker: '-s -w',
  })
  switch (name) {
    case 'kube':
      return { ...plain('cluster/kube'), ...kubernetesBuild() }
    case 'helm':
      return plain('cluster/helm')
    case 'flux-apply':
      return plain('cluster/flux')
    case 'flux': {
      const version = fluxVersion()
      const crds = {
        [`${FLUX}@${version}`]: 'config/crd/bases/*.yaml',
        // Flux does not start if the CRD of one of its kinds of source is missing.
        [`${FLUX_SOURCES}@${version}`]: 'config/crd/bases/*.yaml',
      }
      return { ...plain('e2e/go/flux'), prefix: `flux-${version}`, package: FLUX, crds }
    }
    case 'argo-cd': {
      const version = argoCdVersion()
      const crds = { [`${ARGO_CD}@${version}`]: 'manifests/crds/*-crd.yaml' }
      return { ...plain('e2e/go/argo-cd'), prefix: `argo-cd-${version}`, crds }
    }
    default:
      return plain(`e2e/go/${name}`)
  }
}

/** Returns the path of the program after its build. */
export function goProgramPath(name: GoProgram): string {
  const { folder, prefix, files = readdirSync(folder) } = findModule(name)
  const paths = files.toSorted().map((file) => join(folder, file))
  return join(cacheFolder(), `${prefix}-${hashFiles(paths, 12)}`)
}

/** Returns the path of the program. Throws if set-up has not run. */
export function goProgram(name: GoProgram): string {
  const path = goProgramPath(name)
  if (!existsSync(path)) throw new Error(`no ${path}: \`make test\` builds it, and so does \`node test/setup/run.ts\``)
  return path
}

/** Returns the path of a program's CRDs, if it has any. */
export const goProgramCrds = (name: GoProgram): string => `${goProgram(name)}.yaml`

/** Builds the program. Only the holder of the lock may call it. */
export async function buildGoProgram(name: GoProgram, progress: (state: string) => void): Promise<void> {
  const { folder, flags = [], linker, package: path = '.', crds } = findModule(name)
  // Distributions set GOTOOLCHAIN=local, with which an older Go refuses the module instead of downloading a newer Go.
  const go = { program: 'go', cwd: folder, env: { GOTOOLCHAIN: 'auto', ...STATIC } }
  let modulesFetched = 0
  const listed = await run({ ...go, args: ['list', ...flags, '-deps', path] }, (line) => {
    if (line.startsWith('go: downloading')) progress(`${(modulesFetched += 1)} modules fetched`)
  })
  const total = listed.trim().split('\n').length
  const built = join(workFolder(), name)
  let packages = 0
  const args = [...flags, '-v', '-buildvcs=false', PLAIN, '-ldflags', linker, '-o', built, path]
  await run({ ...go, args: ['build', ...args] }, () => {
    packages += 1
    progress(packages < total ? `${packages} of ${total} Go packages compiled` : 'linking')
  })
  const definitions: string[] = []
  for (const [module, pattern] of Object.entries(crds ?? {})) {
    const { Dir: cwd } = JSON.parse(await run({ ...go, args: ['mod', 'download', '-json', module] })) as { Dir: string }
    for (const file of globSync(pattern, { cwd }).sort()) definitions.push(readFileSync(join(cwd, file), 'utf8'))
  }
  if (crds) writeFileSync(`${goProgramPath(name)}.yaml`, definitions.join('\n---\n'))
  renameSync(built, goProgramPath(name))
}
