import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { VERSION } from '../../../crds/index.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { newCluster } from '../support/cluster.ts'
import { gateway, group, telemetry } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const PLURAL = 'mcptelemetryconfigs'
const CRD = `${PLURAL}.portico.dev`

const cluster = newCluster()
const { apply, exists } = cluster
let crd: LiveObject | undefined

const status = async () => (await fetch(`${cluster.operator.health}/status`)).json() as Promise<{ absent: string[] }>

test.before(() => cluster.install())

test.after(async () => {
  // The next test file needs the kind.
  if (crd !== undefined && !cluster.exists('crd', CRD)) await putBack(crd)
  await cluster.stop()
})

/** Creates the CRD again, and waits until its objects are served. */
async function putBack({ metadata: _, status: __, ...rest }: LiveObject): Promise<void> {
  cluster.create({ ...rest, metadata: { name: CRD } })
  await eventually(() => cluster.serves('portico.dev', VERSION, [PLURAL]), 'the kind is served')
}

test('if the CRD of one kind is missing, a new operator handles the other kinds', async () => {
  crd = cluster.read('crd', CRD)
  await cluster.removeAndWait('crd', [CRD])
  await cluster.startOperator()
  // The API server may list the CRD for a moment after it is deleted.
  await eventually(
    async () => (await status()).absent.join() === 'mcptelemetryconfigs.portico.dev/v1beta1',
    'the status reports the missing CRD',
  )
  apply(group(), gateway('front'))
  await eventually(() => exists('deployment', 'front-vmcp'), 'a gateway is served')
  // The API server may have two messages while it drops a kind. Each is logged once; other kinds are not checked here.
  const messages = cluster.operator
    .log()
    .split('\n')
    .filter((line) => line.includes('"watch failed"') && line.includes('"watch":"mcptelemetryconfigs'))
    .map((line) => JSON.parse(line) as { level: string; error: string })
    .filter(({ level }) => level !== 'debug')
    .map(({ error }) => error)
  assert.ok(messages.length >= 1, 'it is logged')
  assert.equal(messages, [...new Set(messages)], 'nothing is logged twice')

  await putBack(crd)
  apply(telemetry('main'), gateway('front', 'main'))
  await eventually(
    () => cluster.read('mcpotel', 'main').status?.referencingWorkloads?.some(({ name }) => name === 'front'),
    'the kind is looked after once its CRD is there',
  )
  await eventually(async () => (await status()).absent.length === 0, 'nothing is absent')
})

test('if a CRD is deleted while the operator runs, only its objects are affected', async () => {
  apply(telemetry('held'), gateway('front'))
  cluster.mergePatch('mcpotel', 'main', { metadata: { finalizers: null } })
  await cluster.removeAndWait('crd', [CRD])
  await eventually(async () => (await status()).absent.length === 1, 'the operator has noticed')
  apply(gateway('second'))
  await eventually(() => exists('deployment', 'second-vmcp'), 'other objects are reconciled')
  assert.is((await fetch(`${cluster.operator.health}/readyz`)).status, 200)
})

test.run()
