/**
 * Released versions of Argo CD and Flux sync the samples on a node: `make gitops`. Both must find them synced and
 * healthy, revert manual changes, and write nothing during an idle minute (`GITOPS_SECONDS=600` for ten).
 */
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../cluster/support/operator-process.ts'
import { createNamespace, get, installOperator, kubectl } from '../../support/operator/e2e-cluster.ts'
import { startArgoCd } from './argo-cd.ts'
import { startFlux } from './flux.ts'
import { type GitOpsTool, generationsIn, listWrites, type Sample, sampleFiles } from './platform.ts'

const IDLE_SECONDS = Number(process.env['GITOPS_SECONDS'] ?? 60)
const LOOK_MS = 5_000
/** Two cores start about twenty pods. */
const PATIENCE_MS = 300_000

const starts = { 'argo-cd': startArgoCd, flux: startFlux }
const names = Object.keys(starts) as (keyof typeof starts)[]
const tools = new Map<string, GitOpsTool>()
/** The samples that fit on a node of two cores: their pods request 1.8 of them. */
const samplesOf: Readonly<Record<keyof typeof starts, readonly Sample[]>> = {
  'argo-cd': ['quickstart', 'rate-limits', 'workflows'],
  flux: ['quickstart', 'tool-search'],
}
const listNamespaces = (name: keyof typeof starts) => samplesOf[name].map((sample) => `${name}-${sample}`)
const everywhere = names.flatMap(listNamespaces)
const tool = (name: string) => tools.get(name) as GitOpsTool
const files = { ...sampleFiles() }

/** Returns what a tool reports about its namespaces that is not healthy. */
const missing = (name: keyof typeof starts, idle = false) =>
  listNamespaces(name).flatMap((namespace) => tool(name).missing(namespace, idle) ?? [])

async function untilSynced(name: keyof typeof starts): Promise<void> {
  try {
    await eventually(
      () => {
        const absent = missing(name)
        if (absent.length > 0) throw new Error(absent.join('\n'))
        return true
      },
      `${name} finds everything healthy and as the last commit has it`,
      PATIENCE_MS,
    )
  } catch (error) {
    throw Object.assign(new Error(`${(error as Error).message}\n${tool(name).log()}`), { stack: '' })
  }
}

test.before(async () => {
  await installOperator('cluster')
  for (const namespace of everywhere) createNamespace(namespace)
  for (const name of names) tools.set(name, await starts[name]())
})
test.after(async () => {
  for (const one of tools.values()) await one.stop()
})

for (const name of names)
  test(`${name} syncs the samples and finds them healthy`, async () => {
    await tool(name).commit(files)
    for (const sample of samplesOf[name]) tool(name).keep(sample, `${name}-${sample}`)
    await untilSynced(name)
  })

const replicas = (namespace: string) =>
  get<{ spec: { replicas?: number } }>('mcpserver', 'clock', '--namespace', namespace).spec.replicas

for (const name of names)
  test(`${name} rolls out a change and finds it healthy`, async () => {
    files['quickstart/clock.yaml'] = String(sampleFiles()['quickstart/clock.yaml']).replace(
      'spec:',
      'spec:\n  replicas: 2',
    )
    await tool(name).commit(files)
    await untilSynced(name)
    const namespace = `${name}-quickstart`
    assert.is(replicas(namespace), 2)
    const { status } = get<{ status: { readyReplicas?: number } }>('deployment', 'clock-mcp', '--namespace', namespace)
    assert.is(status.readyReplicas, 2)
  })

for (const name of names)
  test(`${name} reverts a manual change`, async () => {
    const namespace = `${name}-quickstart`
    const patch = JSON.stringify({ spec: { replicas: 1 } })
    kubectl(['patch', 'mcpserver', 'clock', '--namespace', namespace, '--type', 'merge', '--patch', patch])
    await eventually(() => replicas(namespace) === 2, 'the replicas are as in the repository again', PATIENCE_MS)
    await untilSynced(name)
  })

test('while nothing changes, neither finds a difference or writes', async () => {
  const before = generationsIn(everywhere)
  const started = names.map((name) => listWrites(tool(name).user, everywhere).end)
  for (let since = performance.now(); performance.now() - since < IDLE_SECONDS * 1000; await delay(LOOK_MS))
    for (const name of names) assert.equal(missing(name, true), [], tool(name).log())
  names.forEach((name, index) => {
    assert.equal(listWrites(tool(name).user, everywhere, started[index]).writes, [], name)
  })
  assert.equal(generationsIn(everywhere), before)
  assert.ok(before.length > everywhere.length)
})

test.run()
