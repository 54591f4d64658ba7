/**
 * Applies a sample with Flux's own library, which judges its health and looks for drift, on a real API server.
 * `make gitops` runs the whole controllers on a node.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parseAllDocuments, stringify } from 'yaml'
import { type FluxResult, fluxApplies } from '../support/flux.ts'
import { newStage } from '../support/stage.ts'

const stage = newStage()
const sample = new URL('../../../samples/quickstart/', import.meta.url)

interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string; namespace?: string }
  readonly spec?: Record<string, unknown>
}
/** The sample's objects, in the namespace that a Kustomization would name. */
const objects: Named[] = readdirSync(sample)
  .filter((name) => name.endsWith('.yaml'))
  .flatMap((name) => parseAllDocuments(readFileSync(new URL(name, sample), 'utf8')))
  .map((document) => document.toJS() as Named)
for (const { metadata } of objects) metadata.namespace = 'default'
const subjects = objects.map(({ kind, metadata }) => `${kind}/default/${metadata.name}`)
const clock = objects.find(({ kind, metadata }) => kind === 'MCPServer' && metadata.name === 'clock') as Named
const ofClock = 'MCPServer/default/clock'

const waitForApplied = (seconds?: number) =>
  fluxApplies(stage.plane.kubeconfig, objects.map((one) => stringify(one)).join('---\n'), seconds)
const outcome = (one: FluxResult, action: string) =>
  one.changes.filter((line) => line.endsWith(` ${action}`)).map((line) => line.slice(0, -action.length - 1))
const ours = () => objects.map(({ kind, metadata }) => stage.plane.find(kind, metadata.name)?.metadata.generation)

/** Enough for a busy machine to read every object once; without pods nothing changes after that. */
const EARLY_SECONDS = 8

/** Reports all pods as ready, as kubelets would, while it runs. */
async function kubelets(until: Promise<unknown>): Promise<void> {
  let isOver = false
  const end = () => {
    isOver = true
  }
  until.then(end, end)
  for (; !isOver; await delay(250))
    for (const { metadata, status } of stage.podsWith('app.kubernetes.io/managed-by=portico'))
      if (status.phase !== 'Running') {
        const ready = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }
        stage.plane.patch('pod', metadata.name, { status: ready }, { subresource: 'status' })
      }
}

/** Applies, with pods that come up. */
async function healthy(): Promise<FluxResult> {
  const applying = waitForApplied(120)
  await kubelets(applying)
  return applying
}

test.before(() => stage.start())
test.after(() => stage.stop())

test('an applied sample is healthy once its pods are ready', async () => {
  const early = await waitForApplied(EARLY_SECONDS)
  assert.equal(outcome(early, 'created').sort(), subjects.toSorted())
  assert.match(early.failed, `${ofClock} status: 'InProgress'`)
  const { failed } = await healthy()
  assert.is(failed, '')
})

test('a second apply finds no drift and changes nothing', async () => {
  const before = ours()
  assert.equal(outcome(await waitForApplied(), 'unchanged').sort(), subjects.toSorted())
  assert.equal(ours(), before)
})

test('a manual change is detected and reverted, and nothing else is', async () => {
  stage.plane.patch('mcpserver', 'clock', { spec: { transport: 'sse' } }, {})
  assert.equal(outcome(await waitForApplied(), 'configured'), [ofClock])
  assert.is((await stage.get('MCPServer', 'clock')).spec['transport'], clock.spec?.['transport'])
})

test('a change is healthy only once its pods are, and a broken one says why', async () => {
  Object.assign(clock.spec as object, { image: 'clock:next' })
  const early = await waitForApplied(EARLY_SECONDS)
  assert.equal(outcome(early, 'configured'), [ofClock])
  assert.match(early.failed, `${ofClock} status: 'InProgress'`)
  assert.is((await healthy()).failed, '')
  // A refused object has failed for good, so that Flux does not wait for it.
  Object.assign(clock.spec as object, { env: [{ name: 'A=B', value: '1' }] })
  assert.match((await waitForApplied(120)).failed, `${ofClock} status: 'Failed'`)
  assert.equal(outcome(await waitForApplied(), 'unchanged').sort(), subjects.toSorted())
})

test.run()
