/** A removal of the whole installation leaves nothing behind that can't go, in whatever order its parts went. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds, writeCrds } from '../../crds/index.ts'
import { deployFiles } from '../../operator/deploy/manifests.ts'
import { porticoScript } from '../support/portico-program.ts'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import { gateway, group, type Manifest, telemetry } from './support/manifests.ts'
import {
  eventually,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'
import { standsStill } from './support/stands-still.ts'

const SYSTEM = 'portico-system'
const FINALIZER = 'portico.dev/in-use'
const KEPT = 'portico.dev/release-first'

let plane: ControlPlane
let deploy: string
const running: OperatorProcess[] = []

const apply = (...manifests: Manifest[]) => plane.apply(...manifests)
const finalizers = (name: string): string[] => plane.read('mcpotel', name).metadata.finalizers ?? []
const isHeld = (name: string) => finalizers(name).includes(FINALIZER)

/** The files as a checkout has them: kubectl follows the kustomization to ../../crds. */
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

/** The objects that give the operator its rights, as `kind/name`, which are kept while it holds a config. */
const RIGHTS = ['clusterrole', 'clusterrolebinding', 'serviceaccount']
const NAMESPACED_RIGHTS = ['role', 'rolebinding', 'serviceaccount']
const keptOf = (kinds: readonly string[]): string[] =>
  kinds.filter((kind) => plane.find(kind, 'portico-operator', SYSTEM)?.metadata.finalizers?.includes(KEPT))
const isKept = (kinds = RIGHTS) => keptOf(kinds).length === kinds.length

/** Starts a process in place of the first pod of the Deployment, which no kubelet runs. */
async function launch(args: readonly string[] = []): Promise<OperatorProcess> {
  const pod = await eventually(() => plane.list('pods', { namespace: SYSTEM })[0]?.metadata.name, 'a pod')
  const operator = await startOperator(operatorKubeconfig(plane), args, { POD_NAME: pod })
  running.push(operator)
  return operator
}

async function start(args: readonly string[] = []): Promise<OperatorProcess> {
  const operator = await launch(args)
  await operator.ready()
  return operator
}

/** Applies the files of the installation: all of them, or where the CRDs are there and nobody deletes them, the others. */
function applyFiles(): void {
  const areThere = plane.listMetadata('crd').some(({ deletionTimestamp }) => deletionTimestamp === undefined)
  if (areThere) {
    const files = ['namespace.yaml', 'rbac.yaml', 'operator.yaml'].flatMap((file) => ['-f', join(deploy, file)])
    // Tests before may have changed them.
    plane.kubectl(['apply', '--server-side', '--force-conflicts', ...files])
    return
  }
  plane.kubectl(['apply', '--server-side', '-k', deploy])
  areEstablished()
}

function areEstablished(): void {
  plane.kubectl(['wait', '--for=condition=Established', '--timeout=180s', 'crd', '--all'])
}

/** Installs everything, and a gateway whose config is held. */
async function install(): Promise<OperatorProcess> {
  applyFiles()
  const operator = await start()
  apply(group(), telemetry('main'), gateway('front', 'main'))
  await eventually(() => isHeld('main') && isKept(), 'the config is held, and the rights are kept')
  return operator
}

/** What `--release` says, as administrator or with the token of another kubeconfig. */
const release = (kubeconfig = plane.kubeconfig) =>
  execFileSync(process.execPath, [porticoScript, 'operator', '--release', `--kubeconfig=${kubeconfig}`], {
    encoding: 'utf8',
  })

function assertReleased(told: string): void {
  assert.match(told, 'MCPTelemetryConfig default/main is released\n')
  assert.match(told, 'ClusterRole portico-operator is released\n')
  assert.match(told, 'ClusterRoleBinding portico-operator is released\n')
  assert.match(told, `ServiceAccount ${SYSTEM}/portico-operator is released\n`)
}

/** What is left of an installation, be it Terminating. */
const left = () =>
  [
    ...plane.listMetadata('crd').map(({ name }) => name),
    ...(plane.exists('namespace', SYSTEM) ? [SYSTEM] : []),
    ...['clusterrole', 'clusterrolebinding'].filter((kind) => plane.exists(kind, 'portico-operator')),
  ].join(' ')

const isGone = () =>
  eventually(
    () => {
      const rest = left()
      if (rest !== '') throw new Error(rest)
      return true
    },
    'everything is gone',
    180_000,
  )

test.before(async () => {
  plane = await startControlPlane()
  deploy = await writeInstallation()
})

test.after(async () => {
  for (const operator of running) if (!operator.exited) await operator.stop('SIGKILL')
  await plane?.stop()
})

test('a restart lets go of nothing, an operator whose Deployment is gone of everything; then all of it goes', async () => {
  const first = await install()
  await first.stop()
  assert.ok(isHeld('main') && isKept(), 'the Deployment is there: another pod follows')
  const second = await install()
  plane.kubectl(['delete', 'deployment', 'portico-operator', '-n', SYSTEM])
  await second.stop()
  assert.not(isHeld('main'), second.log())
  plane.kubectl(['delete', '-k', deploy, '--ignore-not-found', '--timeout=180s'])
  await isGone()
})

test('what a killed operator holds goes by a `--release` with its own token, whose rights go with it', async () => {
  const operator = await install()
  await operator.stop('SIGKILL')
  const kubeconfig = operatorKubeconfig(plane)
  plane.kubectl(['delete', '-k', deploy, '--wait=false'])
  assert.ok(isHeld('main'))
  assertReleased(release(kubeconfig))
  await isGone()
  assert.is(release(), 'no object is held\n', 'no kind is installed any more')
})

/** As a kubelet does once the pod is being deleted. */
async function stopWithPod(operator: OperatorProcess): Promise<void> {
  await eventually(() => !plane.exists('deployment', 'portico-operator', SYSTEM), 'the Deployment is gone')
  await operator.stop()
}

test('all at once: the operator keeps its rights until it has let go', async () => {
  const operator = await install()
  plane.kubectl(['delete', '-k', deploy, '--wait=false'])
  await Promise.all([stopWithPod(operator), isGone()])
  assert.match(operator.log(), 'it has released all finalizers')
})

for (const [what, ...target] of [
  ['ClusterRoleBinding', 'clusterrolebinding', 'portico-operator'],
  ['ClusterRole', 'clusterrole', 'portico-operator'],
  ['ServiceAccount', 'serviceaccount', 'portico-operator', '-n', SYSTEM],
  ['namespace', 'namespace', SYSTEM],
] as const) {
  test(`the ${what} goes, with an operator that nobody tells to stop: it lets go and ends`, async () => {
    const operator = await install()
    plane.kubectl(['delete', ...target, '--timeout=180s'])
    await eventually(() => operator.exited, 'the operator has ended by itself')
    assert.not(isHeld('main'), operator.log())
    assert.equal(keptOf(RIGHTS), [], operator.log())
  })
}

test('of one namespace, all at once: the configs stay, and nothing holds them', async () => {
  plane.remove('clusterrole', 'portico-operator')
  plane.remove('clusterrolebinding', 'portico-operator')
  plane.kubectl(['create', 'namespace', SYSTEM])
  plane.kubectl(['apply', '--server-side', '-k', join(deploy, 'namespaced')])
  const operator = await start([`--namespace=${SYSTEM}`])
  const inSystem = (object: Manifest) => ({ ...object, metadata: { ...object.metadata, namespace: SYSTEM } })
  const objects = [group(), telemetry('main'), gateway('front', 'main')].map(inSystem)
  apply(...objects)
  const config = () => plane.read('mcpotel', 'main', SYSTEM).metadata.finalizers ?? []
  await eventually(() => config().includes(FINALIZER) && isKept(NAMESPACED_RIGHTS), 'the config is held')
  plane.kubectl(['delete', '-k', join(deploy, 'namespaced'), '--timeout=180s'])
  await stopWithPod(operator)
  assert.not(config().includes(FINALIZER), operator.log())
  const ours = { namespace: SYSTEM, labels: 'app.kubernetes.io/part-of=portico' }
  assert.equal(plane.list('serviceaccounts,roles,rolebindings', ours), [])
  plane.kubectl(['delete', 'ns', SYSTEM, '--timeout=180s'])
  plane.kubectl(['delete', '-k', join(deploy, '../../crds'), '--timeout=180s'])
  await isGone()
})

test('rights are kept while a config is held, and not for longer; a steady operator writes nothing', async () => {
  const operator = await install()
  await standsStill(() => plane.writes().length)
  const before = plane.writes().length
  const looks = Date.now() + 3_000
  await eventually(() => Date.now() > looks, 'two looks')
  const written = plane.writes().slice(before)
  assert.equal(
    written.filter(({ user, resource }) => user.endsWith(':portico-operator') && resource !== 'leases'),
    [],
  )
  plane.kubectl(['delete', 'vmcp', 'front'])
  await eventually(() => !isHeld('main') && keptOf(RIGHTS).length === 0, 'nothing is held')
  await operator.stop()
})

test('rights that may not be kept are told once, and none of them is held', async () => {
  applyFiles()
  plane.remove('vmcp', 'front')
  const { rules } = plane.read('clusterrole', 'portico-operator')
  const fewer = { rules: rules.filter((rule: object) => !('resourceNames' in rule)) }
  plane.mergePatch('clusterrole', 'portico-operator', fewer)
  const named = { name: 'portico-operator' }
  await eventually(() => !plane.may(OPERATOR_USER, 'patch', 'clusterrole', named), 'the API server knows of it')
  const operator = await start()
  apply(group(), telemetry('main'), gateway('front', 'main'))
  await eventually(() => isHeld('main') && operator.log().includes('rights can’t be kept'), 'it is told')
  assert.equal(keptOf(RIGHTS), [])
  await operator.stop()
  assert.is(operator.log().split('rights can’t be kept').length, 2)
  assert.match(release(), 'MCPTelemetryConfig default/main is released\n')
  plane.remove('clusterrole', 'portico-operator')
})

test('an installation over what a killed operator has left Terminating', async () => {
  const killed = await install()
  await killed.stop('SIGKILL')
  plane.remove('clusterrolebinding', 'portico-operator')
  // It may end before anybody sees that it is ready.
  const second = await launch()
  await eventually(() => second.exited, 'it lets go of what the first one has left, and ends')
  assert.not(plane.exists('clusterrolebinding', 'portico-operator'))
  assert.not(isHeld('main'), second.log())
  const third = await install()
  plane.kubectl(['delete', '-k', deploy, '--wait=false'])
  await Promise.all([stopWithPod(third), isGone()])
})

test('CRDs first, while the operator runs: it lets go as the workloads go', async () => {
  const operator = await install()
  plane.kubectl(['delete', '-k', join(deploy, '../../crds'), '--timeout=180s'])
  await operator.stop()
  plane.kubectl(['delete', '-k', deploy, '--ignore-not-found', '--timeout=180s'])
  await isGone()
})

test('a config that was written out and applied again, with its finalizer, is let go all the same', async () => {
  const operator = await install()
  const written = plane.read('mcpotel', 'main')
  const { name, namespace, finalizers: ours } = written.metadata
  const copy = { ...written, metadata: { name, namespace, finalizers: ours }, status: undefined }
  plane.kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], { input: JSON.stringify(copy) })
  plane.remove('mcpotel', 'main')
  plane.kubectl(['delete', 'vmcp', 'front'])
  await eventually(() => !plane.exists('mcpotel', 'main'), 'it goes')
  await operator.stop()
})

test('an administrator’s `--release` lets go of what a killed operator holds', async () => {
  const operator = await install()
  await operator.stop('SIGKILL')
  assertReleased(release())
  assert.not(isHeld('main'))
  assert.equal(keptOf(RIGHTS), [])
  assert.is(release(), 'no object is held\n')
})

test.run()
