import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from './support/cluster.ts'
import { gateway, group, telemetry } from './support/manifests.ts'
import { eventually } from './support/operator-process.ts'

const CRD = 'mcptelemetryconfigs.portico.dev'

const cluster = newCluster()
const { apply, exists, kubectl } = cluster

const status = async () => (await fetch(`${cluster.operator.health}/status`)).json() as Promise<{ absent: string[] }>

test.before(() => cluster.install())

test.after(() => cluster.stop())

test('without the CRD of one kind a new operator looks after the others', async () => {
  const crd = cluster.read('crd', CRD)
  kubectl(['delete', 'crd', CRD])
  await cluster.startOperator()
  // The API server may list it for a moment after it has gone.
  await eventually(async () => (await status()).absent.join() === 'mcptelemetryconfigs.portico.dev/v1beta1', 'told')
  apply(group(), gateway('front'))
  await eventually(() => exists('deployment', 'front-vmcp'), 'a gateway is served')
  // The API server may word it in two ways while it forgets a kind; each is news once, and of other kinds nothing is asked here.
  const told = cluster.operator
    .log()
    .split('\n')
    .filter((line) => line.includes('"watch failed"') && line.includes('"watch":"mcptelemetryconfigs'))
    .map((line) => JSON.parse(line) as { level: string; error: string })
    .filter(({ level }) => level !== 'debug')
    .map(({ error }) => error)
  assert.ok(told.length >= 1, 'it is said')
  assert.equal(told, [...new Set(told)], 'nothing is said twice')

  kubectl(['create', '-f', '-'], {
    input: JSON.stringify({ ...crd, metadata: { name: CRD }, status: undefined }),
  })
  kubectl(['wait', '--for=condition=Established', 'crd', CRD, '--timeout=180s'])
  apply(telemetry('main'), gateway('front', 'main'))
  await eventually(
    () => cluster.read('mcpotel', 'main').status?.referencingWorkloads?.some(({ name }) => name === 'front'),
    'the kind is looked after once its CRD is there',
  )
  await eventually(async () => (await status()).absent.length === 0, 'nothing is absent')
})

test('a CRD that is taken away from a running operator costs its own objects alone', async () => {
  apply(telemetry('held'), gateway('front'))
  kubectl(['patch', 'mcpotel', 'main', '--type=merge', '-p', '{"metadata":{"finalizers":null}}'])
  kubectl(['delete', 'crd', CRD, '--timeout=180s'])
  await eventually(async () => (await status()).absent.length === 1, 'it is noticed')
  apply(gateway('second'))
  await eventually(() => exists('deployment', 'second-vmcp'), 'others are looked after')
  assert.is((await fetch(`${cluster.operator.health}/readyz`)).status, 200)
})

test.run()
