/**
 * Two installations for all namespaces on one API server, each with the rights that Helm gives it. Checks which
 * installation manages which object, what objects may refer to, and how an object changes hands.
 */

import { execFileSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kinds, VERSION } from '../../../crds/index.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { porticoScript } from '../../support/portico-program.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { CHART, helm } from '../support/helm.ts'
import { gateway, group, type Manifest, server, telemetry } from '../support/manifests.ts'
import { type OperatorProcess, startOperator, eventually as within } from '../support/operator-process.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const LABEL = 'portico.dev/installation'
const PLURALS = Object.values(kinds).map(({ plural }) => plural)
const MAIN = 'portico-system'
const BLUE = 'blue-system'
const HELD = 'portico.dev/in-use'
const user = (namespace: string) => `system:serviceaccount:${namespace}:portico-operator`

const cluster = newCluster()
let plane: ControlPlane
let main: OperatorProcess
let blue: OperatorProcess

const eventually: typeof within = (check, what) => within(check, what, 180_000)
const read = (kind: string, name: string): LiveObject => plane.read(kind, name)
const names = (kinds: string) => plane.list(kinds).map(({ kind, metadata }) => `${kind}/${metadata.name}`)
const change = (kind: string, name: string, spec: object) => plane.mergePatch(kind, name, { spec })
function labelFor(installation: string, object: Manifest): Manifest {
  const metadata = { ...object.metadata, labels: { [LABEL]: installation } }
  return { ...object, metadata }
}
const isReady = (kind: string, name: string) =>
  read(kind, name).status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')

function runHelm(...args: readonly string[]): void {
  const { status, stderr } = helm(plane.directory, [...args, '--kubeconfig', plane.kubeconfig])
  assert.is(status, 0, stderr)
}

function start(namespace: string, args: readonly string[] = []): Promise<OperatorProcess> {
  const kubeconfig = plane.kubeconfigFor(namespace, plane.token('portico-operator', namespace))
  return startOperator(kubeconfig, ['--leader-elect', '--image=portico:test', ...args], { POD_NAMESPACE: namespace })
}

/** Returns who has written to objects of this name after the first `since` writes, Leases left out. */
const writers = (name: string, since = 0): readonly string[] =>
  [
    ...new Set(
      plane
        .writes()
        .slice(since)
        .filter((one) => one.name === name && one.user.endsWith(':portico-operator') && one.code < 400)
        .map((one) => one.user),
    ),
  ].sort()

test.before(async () => {
  plane = await cluster.bare()
  const placed = ['--create-namespace', '--set', 'replicas=0,admission.enabled=true']
  runHelm('install', 'portico', CHART, '--namespace', MAIN, ...placed)
  await eventually(() => plane.serves('portico.dev', VERSION, PLURALS), 'the kinds are served')
  runHelm('install', 'blue', CHART, '--namespace', BLUE, ...placed, '--set', 'installation=blue,crds.install=false')
  main = await start(MAIN)
  blue = await start(BLUE, ['--installation=blue'])
  await Promise.all([main.ready(), blue.ready()])
})
test.after(async () => {
  await main?.stop()
  await blue?.stop()
  await cluster.stop()
})

test('the installation in an object’s label manages it, whatever installation manages its references', async () => {
  const objects = [
    group(),
    telemetry('plain'),
    labelFor('blue', telemetry('azure')),
    labelFor('nobody', telemetry('free')),
    server('one', 'azure'),
    labelFor('blue', server('two', 'plain')),
    labelFor('nobody', server('three', 'plain')),
    server('four', 'free'),
    labelFor('blue', gateway('front', 'azure')),
  ]
  plane.apply(...objects)
  const created = ['one-mcp', 'two-mcp', 'four-mcp', 'front-vmcp']
  await eventually(
    () => created.every((name) => names('deployments').includes(`Deployment/${name}`)),
    'the children exist',
  )
  for (const name of ['plain', 'azure']) await eventually(() => isReady('mcpotel', name), name)
  await waitUntilStill(() => plane.writes().filter(({ resource }) => resource !== 'leases').length)
  const whose: Record<string, readonly string[]> = {
    one: [user(MAIN)],
    'one-mcp': [user(MAIN)],
    four: [user(MAIN)],
    plain: [user(MAIN)],
    tools: [user(MAIN)],
    two: [user(BLUE)],
    'two-mcp': [user(BLUE)],
    front: [user(BLUE)],
    azure: [user(BLUE)],
    three: [],
    free: [],
  }
  for (const [name, users] of Object.entries(whose)) assert.equal(writers(name), users, name)
  assert.equal(
    names('deployments').length,
    created.length,
    'no children are made for an object that no installation manages',
  )
  const referrers = (name: string) =>
    read('mcpotel', name).status.referencingWorkloads.map(({ kind, name: its }) => `${kind}/${its}`)
  assert.equal(referrers('plain'), ['MCPServer/three', 'MCPServer/two'])
  assert.equal(referrers('azure'), ['MCPServer/one', 'VirtualMCPServer/front'])
  const { conditions } = read('mcpserver', 'four').status
  assert.is(conditions.find(({ type }) => type === 'ReferencesResolved')?.status, 'True')
  assert.equal(read('mcpg', 'tools').status.servers, ['four', 'one', 'three', 'two'])
})

test('a change of an object reaches the users that another installation manages', async () => {
  const hash = () => read('configmap', 'one-mcp-config').metadata.annotations['portico.dev/config-hash']
  const before = hash()
  const since = plane.writes().length
  change('mcpotel', 'azure', { openTelemetry: { tracing: { enabled: false } } })
  await eventually(() => hash() !== before, 'the configuration has changed')
  // The audit log lags behind the answer.
  await eventually(
    () => writers('azure', since).length > 0 && writers('one-mcp-config', since).length > 0,
    'both installations have written',
  )
  assert.equal([writers('one-mcp-config', since), writers('azure', since)], [[user(MAIN)], [user(BLUE)]])
})

test('each installation counts the objects that it manages', async () => {
  const readCounts = async ({ metrics }: OperatorProcess) => {
    const text = await (await fetch(metrics)).text()
    // Each kind has one line for each state of readiness.
    const sums = new Map<string, number>()
    for (const [, kind = '', count] of text.matchAll(/^portico_operator_objects\{.*kind="(\w+)".*\} (\d+)$/gm))
      sums.set(kind, (sums.get(kind) ?? 0) + Number(count))
    return [...sums].map(([kind, count]) => `${kind} ${count}`).sort()
  }
  assert.equal(await readCounts(main), ['MCPGroup 1', 'MCPServer 2', 'MCPTelemetryConfig 1'])
  assert.equal(await readCounts(blue), ['MCPServer 1', 'MCPTelemetryConfig 1', 'VirtualMCPServer 1'])
})

test('changing the label hands an object over without touching its pods', async () => {
  const pods = () => {
    const found = plane.list('pods', { labels: 'app.kubernetes.io/instance=one' })
    return found.map(({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`)
  }
  const generation = () => read('deployment', 'one-mcp').metadata.generation
  await eventually(() => pods().length === 1, 'a pod')
  await waitUntilStill(() => plane.writes().filter(({ resource }) => resource !== 'leases').length)
  const before = [pods(), generation(), read('deployment', 'one-mcp').metadata.uid]
  const since = plane.writes().length
  const label = (installation: string | null) =>
    plane.mergePatch('mcpserver', 'one', { metadata: { labels: { [LABEL]: installation } } })
  label('blue')
  // The policy of the gateway admits the operator that polls its pods.
  const readPolicy = () => JSON.stringify(read('networkpolicy', 'one-mcp').spec)
  await eventually(
    () => readPolicy().includes(BLUE) && !readPolicy().includes(MAIN),
    'the other installation has taken over',
  )
  await waitUntilStill(() => plane.writes().filter(({ resource }) => resource !== 'leases').length)
  assert.equal([pods(), generation(), read('deployment', 'one-mcp').metadata.uid], before)
  for (const name of ['one', 'one-mcp']) assert.not.ok(writers(name, since).includes(user(MAIN)), name)

  const later = plane.writes().length
  change('mcpserver', 'one', { args: ['--loud'] })
  await eventually(() => generation() > Number(before[1]), 'the Deployment has a new generation')
  await eventually(() => writers('one', later).length > 0 && writers('one-mcp', later).length > 0, 'both have written')
  assert.equal([writers('one-mcp', later), writers('one', later)], [[user(BLUE)], [user(BLUE)]])

  label(null)
  await eventually(
    () => readPolicy().includes(MAIN) && !readPolicy().includes(BLUE),
    'the first installation has taken it back',
  )
  // A label that names no installation changes nothing.
  label('nobody')
  const left = plane.writes().length
  change('mcpserver', 'one', { args: ['--louder'] })
  plane.remove('networkpolicy', 'one-mcp')
  change('mcpserver', 'four', { args: ['--loud'] })
  change('mcpserver', 'two', { args: ['--loud'] })
  await eventually(
    () => writers('four', left).length > 0 && writers('two', left).length > 0,
    'the others have new generations',
  )
  await waitUntilStill(() => plane.writes().filter(({ resource }) => resource !== 'leases').length)
  assert.equal([writers('one', left), writers('one-mcp', left)], [[], []])
})

test('each installation protects and releases only its own configs, whatever objects refer to them', async () => {
  const finalizers = (name: string): readonly string[] => read('mcpotel', name).metadata.finalizers ?? []
  await eventually(
    () => finalizers('plain').includes(HELD) && finalizers('azure').includes(HELD),
    'both have a finalizer',
  )
  plane.remove('mcpotel', 'plain')
  const findBlocked = () => read('mcpotel', 'plain').status.conditions.find(({ type }) => type === 'DeletionBlocked')
  await eventually(() => findBlocked()?.status === 'True', 'the deletion is blocked')
  assert.match(findBlocked()?.message ?? '', 'MCPServer "two"')
  await main.stop()
  await blue.stop()
  const release = (...args: string[]) =>
    execFileSync(
      process.execPath,
      [porticoScript, 'operator', '--release', `--kubeconfig=${plane.kubeconfig}`, ...args],
      { encoding: 'utf8' },
    )
  assert.match(release('--installation=blue'), 'MCPTelemetryConfig default/azure is released\n')
  assert.equal([finalizers('azure'), finalizers('plain')], [[], [HELD]])
  assert.match(release(), 'MCPTelemetryConfig default/plain is released\n')
  await eventually(() => !plane.exists('mcpotel', 'plain'), 'the config is gone')
})

test('uninstalling one release leaves the rights of the other', () => {
  runHelm('uninstall', 'blue', '--namespace', BLUE)
  const left = names('clusterroles,clusterrolebindings,validatingwebhookconfigurations')
  assert.not(left.some((name) => name.includes('blue')))
  assert.ok(left.includes('ClusterRole/portico-operator'))
  assert.ok(left.includes('ValidatingWebhookConfiguration/portico-operator.portico-system'))
})

test.run()
