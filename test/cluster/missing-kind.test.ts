import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'
import { gateway, group, type Manifest, telemetry, yaml } from './support/manifests.ts'
import {
  eventually,
  installOperator,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from './support/operator-process.ts'

const CRD = 'mcptelemetryconfigs.portico.dev'

let plane: ControlPlane
let operator: OperatorProcess | undefined

const apply = (...manifests: Manifest[]) => plane.kubectl(['apply', '-f', '-'], { input: yaml(...manifests) })
const exists = (kind: string, name: string) =>
  plane.kubectl(['get', kind, name, '--ignore-not-found', '-o', 'name']) !== ''
const status = async () => (await fetch(`${operator?.health}/status`)).json() as Promise<{ absent: string[] }>

test.before(async () => {
  plane = await startControlPlane()
  await installOperator(plane)
})

test.after(async () => {
  await operator?.stop()
  await plane?.stop()
})

test('without the CRD of one kind a new operator looks after the others', async () => {
  const crd = JSON.parse(plane.kubectl(['get', 'crd', CRD, '-o', 'json']))
  plane.kubectl(['delete', 'crd', CRD])
  operator = await startOperator(operatorKubeconfig(plane))
  await operator.ready()
  assert.equal((await status()).absent, ['mcptelemetryconfigs.portico.dev/v1beta1'])
  apply(group(), gateway('front'))
  await eventually(() => exists('deployment', 'front-vmcp'), 'a gateway is served')
  // The API server may word it in two ways while it forgets a kind; each is news once, and of other kinds nothing is asked here.
  const told = operator
    .log()
    .split('\n')
    .filter((line) => line.includes('"watch failed"') && line.includes('"watch":"mcptelemetryconfigs'))
    .map((line) => JSON.parse(line) as { level: string; error: string })
    .filter(({ level }) => level !== 'debug')
    .map(({ error }) => error)
  assert.ok(told.length >= 1, 'it is said')
  assert.equal(told, [...new Set(told)], 'nothing is said twice')

  plane.kubectl(['create', '-f', '-'], {
    input: JSON.stringify({ ...crd, metadata: { name: CRD }, status: undefined }),
  })
  plane.kubectl(['wait', '--for=condition=Established', 'crd', CRD, '--timeout=30s'])
  apply(telemetry('main'), gateway('front', 'main'))
  await eventually(
    () => plane.kubectl(['get', 'mcpotel', 'main', '-o', 'jsonpath={.status.referencingWorkloads}']).includes('front'),
    'the kind is looked after once its CRD is there',
  )
  assert.equal((await status()).absent, [])
})

test('a CRD that is taken away from a running operator costs its own objects alone', async () => {
  apply(telemetry('held'), gateway('front'))
  plane.kubectl(['patch', 'mcpotel', 'main', '--type=merge', '-p', '{"metadata":{"finalizers":null}}'])
  plane.kubectl(['delete', 'crd', CRD, '--timeout=30s'])
  await eventually(async () => (await status()).absent.length === 1, 'it is noticed')
  apply(gateway('second'))
  await eventually(() => exists('deployment', 'second-vmcp'), 'others are looked after')
  assert.is((await fetch(`${operator?.health}/readyz`)).status, 200)
})

test.run()
