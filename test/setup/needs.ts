/** The needs of the tests, by the file that uses them. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { argoCdVersion, buildGoProgram, fluxVersion, type GoProgram, goProgramPath } from './go-program.ts'
import { withImports } from './imports.ts'
import { hasKeycloak, makeKeycloak } from './keycloak.ts'
import { kubernetesVersion } from './kubernetes.ts'
import type { Need } from './need.ts'
import { programPath } from './program.ts'
import { hasPythonWith, makePythonWith, type PythonSet } from './python.ts'

/** A command with a Debian package, usually of the same name. */
const program = (name: string, debian = name, brew = debian): Need => ({
  name,
  present: () => programPath(name) !== undefined,
  debian: [debian],
  brew: [brew],
})

/** Folders in which distributions install CNI plugins. */
export const CNI_FOLDERS = ['/usr/lib/cni', '/opt/cni/bin', '/usr/libexec/cni']
/** Commands that start Chromium, or Chrome. */
export const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
export const AUTHORITIES = '/etc/ssl/certs/ca-certificates.crt'

const succeeds = (command: string, ...args: string[]) => spawnSync(command, args, { stdio: 'ignore' }).status === 0

const git = program('git')
const chromium: Need = {
  name: 'chromium',
  present: () => BROWSERS.some((name) => programPath(name) !== undefined),
  debian: ['chromium'],
  notOnUbuntu: true,
  hint: 'Chrome’s own package from https://www.google.com/chrome will do',
}
const python: Need = {
  name: 'Python 3.10 or newer, with venv',
  present: () => succeeds('python3', '-c', 'import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))'),
  debian: ['python3', 'python3-venv'],
  brew: ['python3'],
}
const go: Need = {
  name: 'Go 1.21 or newer',
  present: () => hasGo(),
  debian: [],
  brew: ['go'],
  hint: 'from https://go.dev/dl, or `golang-go` of Debian 13 and Ubuntu 24.04',
}

/** Since 1.21, an older Go downloads the newer one that a module requires. */
function hasGo(): boolean {
  const { stdout } = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' })
  const minor = /^go1\.(\d+)/.exec(stdout ?? '')?.[1]
  return Number(minor) >= 21
}

const goNeed = (name: GoProgram, label: string, minutes: number, after?: Need): Need => ({
  name: label,
  present: () => existsSync(goProgramPath(name)),
  debian: [],
  make: (progress) => buildGoProgram(name, progress),
  minutes,
  by: [go],
  ...(after === undefined ? {} : { after }),
})

/**
 * Components of a control plane. KUBEBUILDER_ASSETS may name a folder with one file for each (the envtest convention).
 */
export const CONTROL_PLANE = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'] as const
export const NODE = [...CONTROL_PLANE, 'kube-scheduler', 'kubelet', 'kube-proxy'] as const

/** Returns KUBEBUILDER_ASSETS if it has these components and no version was requested. */
export function assetsWith(components: readonly string[]): string | undefined {
  const folder = process.env['K8S'] ? undefined : process.env['KUBEBUILDER_ASSETS']
  return folder && components.every((name) => existsSync(join(folder, name))) ? folder : undefined
}

const kubernetes = (components: readonly string[]): Need => ({
  ...goNeed('kube', '', 8),
  // An unknown version is reported where the version is used.
  get name() {
    return `Kubernetes ${kubernetesVersion()}, built from its Go modules`
  },
  present: () => assetsWith(components) !== undefined || existsSync(goProgramPath('kube')),
})

const pythonPackages = (set: PythonSet): Need => ({
  name: `Python packages (${set})`,
  present: () => hasPythonWith(set),
  debian: [],
  make: (progress) => makePythonWith(set, progress),
  minutes: 0.5,
  by: [python],
})

const java = program('java', 'default-jre-headless', 'openjdk')
const keycloak: Need = {
  name: 'Keycloak, from the Maven repository',
  present: hasKeycloak,
  debian: [],
  make: makeKeycloak,
  minutes: 0.5,
  by: [program('mvn', 'maven'), program('unzip'), java],
}

const containerNode: readonly Need[] = [
  program('containerd'),
  program('ctr', 'containerd'),
  program('runc'),
  program('iptables'),
  program('conntrack'),
  program('ip', 'iproute2'),
  program('mount'),
  program('unshare', 'util-linux'),
  {
    name: 'plugins of container networks',
    present: () => CNI_FOLDERS.some((folder) => existsSync(join(folder, 'bridge'))),
    debian: ['containernetworking-plugins'],
  },
]

/** A file that starts a program, or reads a system file, has an entry here; needs.test.ts checks that. */
export const NEEDS: Readonly<Record<string, readonly Need[]>> = {
  'build/image/portico.ts': [
    git,
    { name: AUTHORITIES, present: () => existsSync(AUTHORITIES), debian: ['ca-certificates'] },
  ],
  'test/cluster/support/binary.ts': [kubernetes(CONTROL_PLANE)],
  'test/cluster/support/helm.ts': [goNeed('helm', 'Helm, built from its Go modules', 2, kubernetes(CONTROL_PLANE))],
  'test/cluster/support/flux.ts': [
    goNeed('flux-apply', 'Flux’s library of applying, built from its Go modules', 1, kubernetes(CONTROL_PLANE)),
  ],
  'test/dataplane/registry/sources/source-git.test.ts': [git],
  'test/docs/gitops.test.ts': [program('lua5.1', 'lua5.1', 'lua@5.1')],
  'test/docs/site.test.ts': [git],
  'test/docs/first-hour.test.ts': [program('bash'), program('curl')],
  'test/docs/readme.test.ts': [program('bash'), program('curl')],
  'test/docs/registry.test.ts': [program('bash'), program('curl')],
  'test/samples/tool-search.test.ts': [program('bash')],
  'test/e2e/node.ts': [
    kubernetes(NODE),
    goNeed('dns', 'CoreDNS, built from its Go modules', 0.9, kubernetes(NODE)),
    goNeed('pause', 'the pause program, built by Go', 0.1),
  ],
  'test/e2e/sandbox.ts': containerNode,
  'test/e2e/gitops/argo-cd.ts': [goNeed('argo-cd', `Argo CD ${argoCdVersion()}, built from its Go modules`, 15)],
  'test/e2e/gitops/flux.ts': [
    goNeed('flux', `Flux’s kustomize-controller ${fluxVersion()}, built from its Go modules`, 12),
  ],
  'test/support/browser.ts': [chromium],
  'test/support/identity/keycloak.ts': [java, keycloak],
  'test/operator/runtime/admission/certificates.test.ts': [program('openssl')],
  'test/support/network/certificates.ts': [program('openssl')],
  'test/support/network/git-server.ts': [git],
  'test/dataplane/gateway/endpoint/page.test.ts': [program('curl')],
  'test/dataplane/registry/api/openapi.test.ts': [python, pythonPackages('schemathesis')],
  'test/support/python.ts': [python, pythonPackages('sdk1'), pythonPackages('sdk2')],
  'test/support/network/redis-server.ts': [program('redis-server', 'redis-server', 'redis')],
  'test/support/telemetry/prometheus-server.ts': [program('prometheus'), program('promtool', 'prometheus')],
}

/** The needs of `make e2e` are those of the files that these import. */
export const E2E_FILES = [
  'test/e2e/inside.ts',
  'test/support/operator/e2e-cluster.ts',
  'test/support/identity/keycloak.ts',
] as const

/** Returns the needs of these files and of those that they import, each once. */
export function listNeeds(files: readonly string[]): Need[] {
  const found = new Map<string, Need>()
  for (const file of withImports(files)) for (const need of NEEDS[file] ?? []) found.set(need.name, need)
  return [...found.values()]
}
