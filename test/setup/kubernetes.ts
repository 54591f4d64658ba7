/** The versions of Kubernetes that the tests can run on. `K8S` in the environment chooses one: `make e2e K8S=1.29`. */

/** The build of `kube` (test/cluster/kube) for one version. */
interface KubernetesBuild {
  readonly prefix: string
  readonly files: readonly string[]
  readonly flags: readonly string[]
  readonly linker: string
}

/** The newest available version, which CI runs on, is built with `newest.mod`. */
const NEWEST = '1.37.2'
/** The version before it is built with `go.mod`. */
const BEFORE = '1.36.3'
/** The oldest version that the chart allows is built with `oldest.mod`; `providerless` leaves out its cloud providers. */
const OLDEST = '1.29.15'

export const KUBERNETES_VERSIONS = [NEWEST, BEFORE, OLDEST] as const
type KubernetesVersion = (typeof KUBERNETES_VERSIONS)[number]

/** Returns the requested version, by default the newest. Throws an Error that lists the versions if it is unknown. */
export function kubernetesVersion(wanted = process.env['K8S']): KubernetesVersion {
  if (!wanted) return NEWEST
  const found = KUBERNETES_VERSIONS.find((version) => version === wanted || version.startsWith(`${wanted}.`))
  if (found) return found
  throw new Error(`there is no Kubernetes ${wanted} to test on: K8S is ${KUBERNETES_VERSIONS.join(' or ')}`)
}

/** Files and flags by version. */
const PARTS: Readonly<Record<KubernetesVersion, Pick<KubernetesBuild, 'files' | 'flags'>>> = {
  [NEWEST]: { files: ['main.go', 'kubelet.go', 'newest.mod', 'newest.sum'], flags: ['-modfile=newest.mod'] },
  [BEFORE]: { files: ['main.go', 'kubelet.go', 'go.mod', 'go.sum'], flags: [] },
  [OLDEST]: {
    files: ['main.go', 'kubelet_oldest.go', 'oldest.mod', 'oldest.sum'],
    flags: ['-modfile=oldest.mod', '-tags=oldest,providerless'],
  },
}

export function kubernetesBuild(version = kubernetesVersion()): KubernetesBuild {
  const [major, minor] = version.split('.')
  const versions = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor }
  const linker = Object.entries(versions).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
  return { prefix: `kube-${version}`, ...PARTS[version], linker: ['-s -w', ...linker].join(' ') }
}
