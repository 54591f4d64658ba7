import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { goProgramPath, versionsIn } from './go-program.ts'
import { KUBERNETES_VERSIONS, kubernetesBuild, kubernetesVersion } from './kubernetes.ts'

const root = join(import.meta.dirname, '../..')
const [newest, before, oldest] = KUBERNETES_VERSIONS
const minor = (version: string) => version.split('.').slice(0, 2).join('.')

test('the newest Kubernetes is used unless another version is requested', () => {
  assert.is(kubernetesVersion(''), newest)
  for (const version of KUBERNETES_VERSIONS) {
    assert.is(kubernetesVersion(version), version)
    assert.is(kubernetesVersion(minor(version)), version)
  }
  for (const unknown of ['1.2', '2', '1.29.1', 'oldest'])
    assert.throws(
      () => kubernetesVersion(unknown),
      `there is no Kubernetes ${unknown} to test on: K8S is ${newest} or ${before} or ${oldest}`,
    )
})

test('each Kubernetes is built from the modules of its version and stored by its version', () => {
  for (const version of KUBERNETES_VERSIONS) {
    const { files } = kubernetesBuild(version)
    const module = files.find((name) => name.endsWith('.mod')) as string
    assert.match(readFileSync(join(root, 'test/cluster/kube', module), 'utf8'), `k8s.io/kubernetes v${version}\n`)
  }
  assert.match(goProgramPath('kube'), `/kube-${kubernetesVersion()}-`)
})

const folders = { helm: 'cluster/helm', 'flux-apply': 'cluster/flux', dns: 'e2e/go/dns' }
/** Helm and Flux require a newer one than Kubernetes. */
const DIFFERENT = new Set(['github.com/go-errors/errors'])

test('the programs beside Kubernetes require its modules in its versions, so that Go compiles them once', () => {
  const kubernetes = versionsIn(join(root, 'test/cluster/kube/newest.mod'))
  for (const [name, folder] of Object.entries(folders)) {
    const shared = [...versionsIn(join(root, 'test', folder, 'go.mod'))].filter(([path]) => kubernetes.has(path))
    assert.is(shared.length > 50, true, name)
    const others = shared.filter(([path, version]) => !DIFFERENT.has(path) && kubernetes.get(path) !== version)
    assert.equal(others, [], name)
  }
})

test('the oldest Kubernetes is the oldest that the chart allows', () => {
  const chart = parse(readFileSync(join(root, 'operator/deploy/helm/portico/Chart.yaml'), 'utf8'))
  assert.is(chart.kubeVersion, `>=${minor(oldest)}.0-0`)
})

test('an unknown version is reported in one line', () => {
  for (const script of ['test/run.ts', 'test/setup/run.ts', 'test/cluster/support/serve.ts', 'test/e2e/run.ts']) {
    const args = [
      '--disable-warning=ExperimentalWarning',
      script,
      ...(script === 'test/run.ts' ? ['cluster/api-server'] : []),
    ]
    const env = { ...process.env, K8S: '1.2', PATH: `${process.env['PATH']}` }
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', env })
    assert.is(status, 1, script)
    assert.match(stderr, /^(\S+: )?there is no Kubernetes 1\.2 to test on: .*\n$/, script)
  }
})

test.run()
