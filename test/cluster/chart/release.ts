/** Installs, upgrades and uninstalls the chart on a real API server, with an operator that runs with its rights. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds, VERSION } from '../../../crds/index.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { CHART, helm } from '../support/helm.ts'
import { buildNamespace, gateway, group, type Manifest, telemetry } from '../support/manifests.ts'
import {
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
  eventually as within,
} from '../support/operator-process.ts'

const PLURALS = Object.values(kinds).map(({ plural }) => plural)
const SYSTEM = 'portico-system'
const cluster = newCluster()
let plane: ControlPlane
let operator: OperatorProcess | undefined

const eventually: typeof within = (check, what) => within(check, what, 180_000)

const runHelm = (...args: string[]): string => {
  const { status, stdout, stderr } = helm(plane.directory, [
    ...args,
    '--namespace',
    SYSTEM,
    '--kubeconfig',
    plane.kubeconfig,
  ])
  assert.is(status, 0, stderr)
  return stdout
}
const install = (...args: string[]) => runHelm('install', 'portico', CHART, '--create-namespace', ...args)
const podNames = () => plane.list('pods', { namespace: SYSTEM }).map(({ metadata }) => metadata.name)
const finalizers = (namespace: string): string[] => plane.read('mcpotel', 'main', namespace).metadata.finalizers ?? []
function inNamespace(namespace: string, manifest: Manifest, labels: object): Manifest {
  const metadata = { ...manifest.metadata, namespace, labels }
  return { ...manifest, metadata }
}

/** Starts an operator in place of the first pod, which no kubelet runs, and a gateway whose config gets a finalizer. */
async function checkWorks(namespace: string, args: readonly string[] = [], labels = {}): Promise<void> {
  await eventually(() => plane.serves('portico.dev', VERSION, PLURALS), 'the kinds are served')
  const pod = await eventually(() => podNames()[0], 'a pod exists')
  operator = await startOperator(operatorKubeconfig(plane), args, { POD_NAME: pod })
  await operator.ready()
  const manifests = [group(), telemetry('main'), gateway('front', 'main')]
  const objects = manifests.map((one) => inNamespace(namespace, one, labels))
  plane.apply(...objects)
  await eventually(() => finalizers(namespace).includes('portico.dev/in-use'), 'the config has a finalizer')
  const children = { namespace, labels: 'app.kubernetes.io/instance=front' }
  await eventually(() => plane.list('configmaps', children).length > 0, 'the children exist')
}

async function checkUninstalled(namespace: string): Promise<void> {
  runHelm('uninstall', 'portico')
  await eventually(() => operator?.exited, 'the operator has ended')
  await eventually(
    () =>
      !plane
        .list('serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,deployments', {
          allNamespaces: true,
        })
        .some(({ metadata }) => metadata.name.includes('portico-operator')),
    'all of the release is gone',
  )
  // The next release would otherwise take one of these pods for its own.
  await eventually(() => podNames().length === 0, 'its pods are collected')
  assert.equal(finalizers(namespace), [], 'the config is released')
  assert.is(plane.list('mcpotel,vmcp,mcpg', { namespace }).length, 3, 'the objects are still there')
}

test.before(async () => {
  plane = await cluster.bare()
})
test.after(async () => {
  await operator?.stop('SIGKILL')
  await cluster.stop()
})

test('a release is installed and upgraded; uninstalling leaves the kinds and their objects, without finalizers', async () => {
  const notes = install('--set', 'replicas=1')
  assert.match(notes, /It manages all namespaces; the kinds are of the API group portico\.dev/)
  await checkWorks('default')
  runHelm('upgrade', 'portico', CHART, '--set', 'replicas=2,adminFrom={monitoring}')
  const { spec } = plane.read('deployment', 'portico-operator', SYSTEM)
  assert.is(spec.replicas, 2)
  assert.ok(spec.template.spec.containers[0].args.includes('monitoring'))
  await checkUninstalled('default')
})

test('a new release for another namespace adopts the remaining objects, without rights outside', async () => {
  plane.apply(buildNamespace('team-a'))
  const notes = install('--set', 'namespaces={team-a}')
  assert.match(notes, /It manages the namespaces team-a;/)
  assert.not(plane.exists('clusterrole', 'portico-operator'))
  await checkWorks('team-a', ['--namespace', 'team-a'])
  await checkUninstalled('team-a')
})

test('a named installation keeps its rights until it has released its own objects, and no others', async () => {
  plane.apply(buildNamespace('team-b'))
  const notes = install('--set', 'installation=blue')
  assert.match(notes, /with the label portico\.dev\/installation=blue\./)
  // The object looks as if the installation that manages it had added its finalizer.
  plane.mergePatch('mcpotel', 'main', { metadata: { finalizers: ['portico.dev/in-use'] } })
  await checkWorks('team-b', ['--installation=blue'], { 'portico.dev/installation': 'blue' })
  const readFinalizers = () => plane.read('clusterrole', 'portico-operator-for-blue').metadata.finalizers ?? []
  await eventually(() => readFinalizers().includes('portico.dev/release-first'), 'the installation keeps its rights')
  await checkUninstalled('team-b')
  assert.equal(finalizers('default'), ['portico.dev/in-use'])
})

test.run()
