/** PodDisruptionBudgets on a real API server: when one exists, its values, and which values are refused. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { newCluster } from '../support/cluster.ts'
import { manifest } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'

const cluster = newCluster()

const server = (more: object) =>
  manifest('MCPServer', 'web', { image: 'time:test', transport: 'streamable-http', ...more })
const apply = (more: object) => cluster.apply(server(more))

/** Returns the spec of the server's budget, or undefined if there is none. */
function budget(): Record<string, unknown> | undefined {
  return cluster.list('poddisruptionbudgets').find(({ metadata }) => metadata.name === 'web-mcp')?.spec
}

test.before(() => cluster.start())
test.after(() => cluster.stop())

test('several pods may lose one at a time, and a single pod may be evicted', async () => {
  apply({ replicas: 2 })
  const created = await eventually(() => budget(), 'a budget')
  assert.is(created['maxUnavailable'], 1)
  assert.is(created['unhealthyPodEvictionPolicy'], 'AlwaysAllow')
  apply({ replicas: 1 })
  await eventually(() => budget() === undefined, 'no budget for a single pod')
})

test('the disruption budget of the spec is in force, also if somebody else scales', async () => {
  apply({ disruption: { minAvailable: '50%' } })
  await eventually(() => budget()?.['minAvailable'] === '50%', 'half of the pods stay')
  assert.is(budget()?.['maxUnavailable'], undefined)
  apply({ disruption: { maxUnavailable: 0 } })
  await eventually(() => budget()?.['maxUnavailable'] === 0, 'no pod goes')
  assert.is(budget()?.['minAvailable'], undefined)
})

test('meaningless disruption budgets are refused when they are applied', () => {
  for (const disruption of [
    { maxUnavailable: '150%' },
    { maxUnavailable: -1 },
    { maxUnavailable: 'one' },
    { minAvailable: '5' },
    { minAvailable: 1, maxUnavailable: 1 },
  ])
    assert.throws(() => apply({ disruption }), /invalid|Invalid/, JSON.stringify(disruption))
})

test.run()
