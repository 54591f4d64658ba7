import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import { gateway, group, type Manifest, server, yaml } from './support/manifests.ts'
import {
  eventually,
  installOperator,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'

let plane: ControlPlane
let operator: OperatorProcess

const apply = (...manifests: Manifest[]) => plane.kubectl(['apply', '-f', '-'], { input: yaml(...manifests) })
const read = (kind: string, name: string): any => JSON.parse(plane.kubectl(['get', kind, name, '-o', 'json']))
const hash = () => read('configmap', 'front-vmcp-config').metadata.annotations['portico.dev/config-hash']
const pods = (instance: string): any[] =>
  JSON.parse(plane.kubectl(['get', 'pods', '-l', `app.kubernetes.io/instance=${instance}`, '-o', 'json'])).items
const touches = () =>
  plane.writes().filter(({ user, resource, verb }) => user === OPERATOR_USER && resource === 'pods' && verb === 'patch')
const unknown = () =>
  read('vmcp', 'front').status.conditions.find(({ type }: { type: string }) => type === 'PodStatusUnknown')

/** What a kubelet would say of a pod that runs and is ready. */
function run(name: string): void {
  const status = {
    phase: 'Running',
    podIP: '127.0.0.9',
    podIPs: [{ ip: '127.0.0.9' }],
    conditions: [{ type: 'Ready', status: 'True' }],
  }
  plane.kubectl(['patch', 'pod', name, '--subresource=status', '--type=merge', '-p', JSON.stringify({ status })])
}

const filtered = (tool: string) => {
  const changed = gateway('front')
  changed.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: [tool] }] } }
  return changed
}

test.before(async () => {
  plane = await startControlPlane()
  await installOperator(plane)
  // Outside the cluster, with the rights that it ships with: it may not ask pods.
  operator = await startOperator(operatorKubeconfig(plane))
  await operator.ready()
  apply(group(), server('everything'), gateway('front'))
  for (const instance of ['front', 'everything']) {
    const [pod] = await eventually(() => pods(instance).length > 0 && pods(instance), `a pod of ${instance}`)
    run(pod.metadata.name)
  }
})

test.after(async () => {
  await operator?.stop()
  await plane?.stop()
})

test('pods that have started with their configuration are not touched, whether or not they can be asked', async () => {
  await eventually(() => unknown()?.status === 'True', 'it is told that the pods can’t be asked', 60_000)
  assert.equal(touches(), [])
  assert.is(unknown().reason, 'PodsNotAsked')
  assert.match(unknown().message, 'forbidden')
})

test('a changed configuration is brought to pods that can’t be asked', async () => {
  for (const tool of ['echo', 'add']) {
    const before = hash()
    apply(filtered(tool))
    await eventually(() => hash() !== before, 'the configuration changes')
    await eventually(
      () => pods('front')[0].metadata.annotations?.['portico.dev/config-hash'] === hash(),
      'the pod is touched',
    )
  }
  await delay(8_000)
  assert.ok(touches().length <= 8, `${touches().length} touches for two changes`)
})

test('that pods can’t be asked is said once', async () => {
  const lines = operator
    .log()
    .split('\n')
    .filter((line) => line.includes('can’t be asked') && /"level":("warn"|40)/.test(line))
  assert.is(lines.length, 1, lines.join('\n'))
  const events = JSON.parse(plane.kubectl(['get', 'events', '-o', 'json'])).items.filter(
    ({ reason, regarding, involvedObject }: any) =>
      reason === 'PodsNotAsked' && (regarding ?? involvedObject)?.name === 'front',
  )
  assert.is(events.length, 1)
})

test('a new operator touches nobody for what they have', async () => {
  await operator.stop()
  const before = touches().length
  operator = await startOperator(operatorKubeconfig(plane))
  await operator.ready()
  await delay(5_000)
  assert.is(touches().length, before)
})

test.run()
