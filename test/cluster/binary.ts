/**
 * Finds the Kubernetes binaries that tests run, or builds them. Looked for in this order: the folder
 * KUBEBUILDER_ASSETS (the envtest convention; one file a component), the cache folder, `go build` of ./kube (six
 * minutes the first time, then seconds).
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const VERSION = '1.36.3'
const module = join(import.meta.dirname, 'kube')

/** Program and leading arguments that start a component such as `kube-apiserver`. */
export type Component = (name: string) => readonly [program: string, ...args: string[]]

const CONTROL_PLANE = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']

function fromAssets(folder: string | undefined, needed: readonly string[]): Component | undefined {
  if (!folder || !needed.every((name) => existsSync(join(folder, name)))) return undefined
  return (name) => [join(folder, name)]
}

function cachedBinary(): string {
  const digest = createHash('sha256')
  for (const file of ['go.mod', 'go.sum', 'main.go']) digest.update(readFileSync(join(module, file)))
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  return join(cache, 'portico', `kube-${VERSION}-${digest.digest('hex').slice(0, 12)}`)
}

function build(binary: string): void {
  if (spawnSync('go', ['version']).status !== 0) {
    throw new Error(
      `no Kubernetes binaries to test against: set KUBEBUILDER_ASSETS to a folder with ${CONTROL_PLANE.join(', ')}, ` +
        `or put a built test/cluster/kube at ${binary}, or install Go so that it can be built here`,
    )
  }
  console.error(`building Kubernetes ${VERSION} from its Go modules into the cache (some minutes, once)`)
  mkdirSync(join(binary, '..'), { recursive: true })
  const version = `-X k8s.io/component-base/version.gitVersion=v${VERSION} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36`
  const partial = `${binary}.${process.pid}`
  execFileSync('go', ['build', '-buildvcs=false', '-ldflags', `-s -w ${version}`, '-o', partial, '.'], {
    cwd: module,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  renameSync(partial, binary)
}

/** The components, built first where that is needed. Throws an error that names the three ways to provide them. */
export function kubernetes(needed: readonly string[] = CONTROL_PLANE): Component {
  const assets = fromAssets(process.env['KUBEBUILDER_ASSETS'], needed)
  if (assets) return assets
  const binary = cachedBinary()
  if (!existsSync(binary)) build(binary)
  return (name) => [binary, name]
}

if (import.meta.main) console.log(kubernetes()('etcd')[0])
