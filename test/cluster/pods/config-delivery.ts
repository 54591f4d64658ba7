import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, server } from '../support/manifests.ts'
import { eventually, OPERATOR_USER } from '../support/operator-process.ts'

const cluster = newCluster()
const { apply, condition, read } = cluster

const hash = () => read('configmap', 'front-vmcp-config').metadata.annotations['portico.dev/config-hash']
const pods = (instance: string) => cluster.list('pods', { labels: `app.kubernetes.io/instance=${instance}` })
const listTouches = () =>
  cluster.plane
    .writes()
    .filter(({ user, resource, verb }) => user === OPERATOR_USER && resource === 'pods' && verb === 'patch')
const unknown = () => condition('vmcp', 'front', 'PodStatusUnknown')

/** The status that a kubelet would report for a pod that runs and is ready. */
function run(name: string): void {
  const status = {
    phase: 'Running',
    podIP: '127.0.0.9',
    podIPs: [{ ip: '127.0.0.9' }],
    conditions: [{ type: 'Ready', status: 'True' }],
  }
  cluster.patch('pod', name, { status }, { subresource: 'status' })
}

const buildFiltered = (tool: string) => {
  const changed = gateway('front')
  changed.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: [tool] }] } }
  return changed
}

test.before(async () => {
  await cluster.install()
  // The operator runs outside the cluster, with the rights that it ships with, which do not let it poll pods.
  await cluster.startOperator()
  apply(group(), server('everything'))
  // If the gateway existed before the group has the server, its configuration would change after its pod is created.
  await eventually(() => read('mcpgroup', 'tools').status?.serverCount === 1, 'the group has its server')
  apply(gateway('front'))
  for (const instance of ['front', 'everything']) {
    const [pod] = await eventually(() => pods(instance).length > 0 && pods(instance), `a pod of ${instance}`)
    run(unwrap(pod).metadata.name)
  }
})

test.after(() => cluster.stop())

test('pods that started with their configuration are not touched, reachable or not', async () => {
  await eventually(() => unknown()?.status === 'True', 'the status says that the pods can’t be polled')
  assert.equal(listTouches(), [])
  assert.is(unknown()?.reason, 'PodsNotAsked')
  assert.match(unknown()?.message ?? '', 'forbidden')
})

test('a changed configuration reaches pods that can’t be asked', async () => {
  for (const tool of ['echo', 'add']) {
    const before = hash()
    apply(buildFiltered(tool))
    await eventually(() => hash() !== before, 'the configuration changes')
    await eventually(
      () => pods('front')[0]?.metadata.annotations?.['portico.dev/config-hash'] === hash(),
      'the pod is touched',
    )
  }
  await delay(8_000)
  assert.ok(listTouches().length <= 8, `${listTouches().length} touches for two changes`)
})

test('unreachable pods are reported once', async () => {
  const lines = cluster.operator
    .log()
    .split('\n')
    .filter((line) => line.includes('can’t be asked') && /"level":("warn"|40)/.test(line))
  assert.is(lines.length, 1, lines.join('\n'))
  const events = () =>
    cluster
      .list('events')
      .filter(
        ({ reason, regarding, involvedObject }) =>
          reason === 'PodsNotAsked' && (regarding ?? involvedObject)?.name === 'front',
      )
  await eventually(() => events().length === 1, 'one event')
})

test('a new operator does not touch pods that are up to date', async () => {
  await cluster.operator.stop()
  const before = listTouches().length
  await cluster.startOperator()
  await delay(5_000)
  assert.is(listTouches().length, before)
})

test.run()
