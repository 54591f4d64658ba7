/** Removing the whole installation leaves no object that cannot be deleted, whatever the order. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments } from 'yaml'
import { crdFor, kinds, VERSION, writeCrds } from '../../crds/index.ts'
import { deployFiles } from '../../operator/deploy/manifests.ts'
import { porticoScript } from '../support/portico-program.ts'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import { buildNamespace, gateway, group, type Manifest, telemetry } from './support/manifests.ts'
import {
  eventually,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'
import { waitUntilStill } from './support/stands-still.ts'

const SYSTEM = 'portico-system'
const FINALIZER = 'portico.dev/in-use'
const KEPT = 'portico.dev/release-first'

let plane: ControlPlane
let deploy: string
const running: OperatorProcess[] = []

const apply = (...manifests: Manifest[]) => plane.apply(...manifests)
const finalizers = (name: string): string[] => plane.read('mcpotel', name).metadata.finalizers ?? []
const isProtected = (name: string) => finalizers(name).includes(FINALIZER)

/** Writes the installation's files in a checkout's layout, because the kustomization refers to ../../crds. */
async function writeInstallation(): Promise<string> {
  const folder = join(plane.directory, 'checkout')
  mkdirSync(join(folder, 'crds'), { recursive: true })
  await writeCrds(join(folder, 'crds'), 'portico.dev')
  for (const [path, text] of deployFiles(Object.values(kinds), 'portico.dev')) {
    const file = join(folder, 'operator/deploy', path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  return join(folder, 'operator/deploy')
}

/** The objects with the operator's rights, as `kind/name`, which have a finalizer while the operator holds a config. */
const RIGHTS = ['clusterrole', 'clusterrolebinding', 'serviceaccount']
const NAMESPACED_RIGHTS = ['role', 'rolebinding', 'serviceaccount']
const listKept = (kinds: readonly string[]): string[] =>
  kinds.filter((kind) => plane.find(kind, 'portico-operator', SYSTEM)?.metadata.finalizers?.includes(KEPT))
const isKept = (kinds = RIGHTS) => listKept(kinds).length === kinds.length

/** Starts a process in place of the Deployment's first pod, which no kubelet runs. */
async function launch(args: readonly string[] = []): Promise<OperatorProcess> {
  const pod = await eventually(() => plane.list('pods', { namespace: SYSTEM })[0]?.metadata.name, 'a pod exists')
  const operator = await startOperator(operatorKubeconfig(plane), args, { POD_NAME: pod })
  running.push(operator)
  return operator
}

async function start(args: readonly string[] = []): Promise<OperatorProcess> {
  const operator = await launch(args)
  await operator.ready()
  return operator
}

const GROUP = 'portico.dev'
const crds = Object.values(kinds).map((declaration) => crdFor(declaration, GROUP))
const crdNames = Object.values(kinds).map(({ plural }) => `${plural}.${GROUP}`)

interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string }
}

/** Returns the objects of the kustomization without the CRDs, in its order. */
const objectsInFiles = (): Named[] =>
  ['namespace.yaml', 'rbac.yaml', 'operator.yaml'].flatMap((file) =>
    parseAllDocuments(readFileSync(join(deploy, file), 'utf8')).flatMap((one) => (one.toJS() as Named | null) ?? []),
  )

const areServed = () =>
  eventually(
    () =>
      plane.serves(
        GROUP,
        VERSION,
        Object.values(kinds).map(({ plural }) => plural),
      ),
    'the kinds are served',
  )

/** Applies the files as kubectl would: the CRDs if they are missing or being deleted, and the rest. */
async function applyFiles(): Promise<void> {
  const areThere = plane.listMetadata('crd').some(({ deletionTimestamp }) => deletionTimestamp === undefined)
  if (!areThere) {
    plane.applyOnServer(crds)
    await areServed()
  }
  // Earlier tests may have changed the objects.
  plane.applyOnServer(objectsInFiles(), { force: true })
}

/** Deletes the objects of the files, as `kubectl delete --wait=false` does. */
function removeFiles(): void {
  for (const name of crdNames) plane.remove('crd', name)
  for (const { kind, metadata } of objectsInFiles()) plane.remove(kind, metadata.name, SYSTEM)
}

/** Installs everything, and a gateway whose config gets a finalizer. */
async function install(): Promise<OperatorProcess> {
  await applyFiles()
  const operator = await start()
  apply(group(), telemetry('main'), gateway('front', 'main'))
  await eventually(() => isProtected('main') && isKept(), 'the config and the rights have finalizers')
  return operator
}

/** Runs `--release` as administrator, or with another kubeconfig, and returns its output. */
const release = (kubeconfig = plane.kubeconfig) =>
  execFileSync(process.execPath, [porticoScript, 'operator', '--release', `--kubeconfig=${kubeconfig}`], {
    encoding: 'utf8',
  })

function assertReleased(output: string): void {
  assert.match(output, 'MCPTelemetryConfig default/main is released\n')
  assert.match(output, 'ClusterRole portico-operator is released\n')
  assert.match(output, 'ClusterRoleBinding portico-operator is released\n')
  assert.match(output, `ServiceAccount ${SYSTEM}/portico-operator is released\n`)
}

/** Returns the names of the installation's objects that still exist, also those that are Terminating. */
const listLeft = () =>
  [
    ...plane.listMetadata('crd').map(({ name }) => name),
    ...(plane.exists('namespace', SYSTEM) ? [SYSTEM] : []),
    ...['clusterrole', 'clusterrolebinding'].filter((kind) => plane.exists(kind, 'portico-operator')),
  ].join(' ')

const isGone = () =>
  eventually(
    () => {
      const rest = listLeft()
      if (rest !== '') throw new Error(rest)
      return true
    },
    'everything is gone',
    180_000,
  )

test.before(async () => {
  plane = await startControlPlane()
  deploy = await writeInstallation()
  plane.kubectl(['apply', '--server-side', '-k', deploy])
  await areServed()
})

test.after(async () => {
  for (const operator of running) if (!operator.exited) await operator.stop('SIGKILL')
  await plane?.stop()
})

test('a restarted operator keeps its finalizers; one whose Deployment is deleted removes them, and everything can be deleted', async () => {
  const first = await install()
  await first.stop()
  assert.ok(isProtected('main') && isKept(), 'the Deployment is there: another pod follows')
  const second = await install()
  plane.remove('deployment', 'portico-operator', SYSTEM)
  await second.stop()
  assert.not(isProtected('main'), second.log())
  plane.kubectl(['delete', '-k', deploy, '--ignore-not-found', '--timeout=180s'])
  await isGone()
})

test('`--release` with the operator’s own token releases what a killed operator holds, its rights included', async () => {
  const operator = await install()
  await operator.stop('SIGKILL')
  const kubeconfig = operatorKubeconfig(plane)
  removeFiles()
  assert.ok(isProtected('main'))
  assertReleased(release(kubeconfig))
  await isGone()
  assert.is(release(), 'no object is held\n', 'no kind is installed any more')
})

/** Stops the operator once its Deployment is gone, as a kubelet stops the process of a deleted pod. */
async function stopWithPod(operator: OperatorProcess): Promise<void> {
  await eventually(() => !plane.exists('deployment', 'portico-operator', SYSTEM), 'the Deployment is gone')
  await operator.stop()
}

test('removing the whole installation at once: the operator keeps its rights until it has removed its finalizers', async () => {
  const operator = await install()
  // The end of the namespace may remove what kubectl has not come to yet.
  plane.kubectl(['delete', '-k', deploy, '--ignore-not-found', '--wait=false'])
  await Promise.all([stopWithPod(operator), isGone()])
  assert.match(operator.log(), 'it has released all finalizers')
})

for (const [what, name] of [
  ['ClusterRoleBinding', 'portico-operator'],
  ['ClusterRole', 'portico-operator'],
  ['ServiceAccount', 'portico-operator'],
  ['namespace', SYSTEM],
] as const) {
  test(`if the ${what} is deleted while the operator runs, it releases everything and ends`, async () => {
    const operator = await install()
    await plane.removeAndWait(what, [name], SYSTEM)
    await eventually(() => operator.exited, 'the operator has ended by itself')
    assert.not(isProtected('main'), operator.log())
    assert.equal(listKept(RIGHTS), [], operator.log())
  })
}

test('if a namespaced installation is deleted at once, its configs stay without finalizers', async () => {
  plane.remove('clusterrole', 'portico-operator')
  plane.remove('clusterrolebinding', 'portico-operator')
  plane.apply(buildNamespace(SYSTEM))
  plane.kubectl(['apply', '--server-side', '-k', join(deploy, 'namespaced')])
  const operator = await start([`--namespace=${SYSTEM}`])
  const inSystem = (object: Manifest) => ({ ...object, metadata: { ...object.metadata, namespace: SYSTEM } })
  const objects = [group(), telemetry('main'), gateway('front', 'main')].map(inSystem)
  apply(...objects)
  const config = () => plane.read('mcpotel', 'main', SYSTEM).metadata.finalizers ?? []
  await eventually(() => config().includes(FINALIZER) && isKept(NAMESPACED_RIGHTS), 'the config has a finalizer')
  plane.kubectl(['delete', '-k', join(deploy, 'namespaced'), '--ignore-not-found', '--timeout=180s'])
  await stopWithPod(operator)
  assert.not(config().includes(FINALIZER), operator.log())
  const ours = { namespace: SYSTEM, labels: 'app.kubernetes.io/part-of=portico' }
  assert.equal(plane.list('serviceaccounts,roles,rolebindings', ours), [])
  plane.remove('namespace', SYSTEM)
  for (const name of crdNames) plane.remove('crd', name)
  await isGone()
})

test('the rights have a finalizer exactly while a config has one, and an idle operator writes nothing', async () => {
  const operator = await install()
  await waitUntilStill(() => plane.writes().length)
  const before = plane.writes().length
  const looks = Date.now() + 3_000
  await eventually(() => Date.now() > looks, 'the operator has checked twice')
  const written = plane.writes().slice(before)
  assert.equal(
    written.filter(({ user, resource }) => user.endsWith(':portico-operator') && resource !== 'leases'),
    [],
  )
  await plane.removeAndWait('vmcp', ['front'])
  await eventually(() => !isProtected('main') && listKept(RIGHTS).length === 0, 'no finalizer is left')
  await operator.stop()
})

test('an operator that may not add finalizers to its rights logs that once and adds none', async () => {
  await applyFiles()
  plane.remove('vmcp', 'front')
  const { rules } = plane.read('clusterrole', 'portico-operator')
  const fewer = { rules: rules.filter((rule: object) => !('resourceNames' in rule)) }
  plane.mergePatch('clusterrole', 'portico-operator', fewer)
  const named = { name: 'portico-operator' }
  await eventually(() => !plane.may(OPERATOR_USER, 'patch', 'clusterrole', named), 'the changed right applies')
  const operator = await start()
  apply(group(), telemetry('main'), gateway('front', 'main'))
  await eventually(
    () => isProtected('main') && operator.log().includes('rights can’t be kept'),
    'the operator has logged it',
  )
  assert.equal(listKept(RIGHTS), [])
  await operator.stop()
  assert.is(operator.log().split('rights can’t be kept').length, 2)
  assert.match(release(), 'MCPTelemetryConfig default/main is released\n')
  plane.remove('clusterrole', 'portico-operator')
})

test('an installation over Terminating objects of a killed operator works', async () => {
  const killed = await install()
  await killed.stop('SIGKILL')
  plane.remove('clusterrolebinding', 'portico-operator')
  // The operator may end before the test sees that it is ready.
  const second = await launch()
  await eventually(() => second.exited, 'the operator removes the finalizers that the first one left, and ends')
  assert.not(plane.exists('clusterrolebinding', 'portico-operator'))
  assert.not(isProtected('main'), second.log())
  const third = await install()
  removeFiles()
  await Promise.all([stopWithPod(third), isGone()])
})

test('if the CRDs are deleted first, the operator removes the configs’ finalizers as the workloads are deleted', async () => {
  const operator = await install()
  await plane.removeAndWait('crd', crdNames)
  await operator.stop()
  removeFiles()
  await isGone()
})

test('a config that was exported and applied again with its finalizer is still released', async () => {
  const operator = await install()
  const written = plane.read('mcpotel', 'main')
  const { name, namespace, finalizers: ours } = written.metadata
  const copy = { ...written, metadata: { name, namespace, finalizers: ours }, status: undefined }
  plane.applyOnServer([copy], { force: true })
  plane.remove('mcpotel', 'main')
  await plane.removeAndWait('vmcp', ['front'])
  await eventually(() => !plane.exists('mcpotel', 'main'), 'the config is deleted')
  await operator.stop()
})

test('`--release` by an administrator releases what a killed operator holds', async () => {
  const operator = await install()
  await operator.stop('SIGKILL')
  assertReleased(release())
  assert.not(isProtected('main'))
  assert.equal(listKept(RIGHTS), [])
  assert.is(release(), 'no object is held\n')
})

test.run()
