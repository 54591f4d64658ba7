import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Workflow } from '../../../../dataplane/config/workflow/compiled.ts'
import { WorkflowRuns } from '../../../../dataplane/gateway/workflows/runs.ts'

test('runs can end in any order, each once', () => {
  const runs = new WorkflowRuns()
  const workflow = { name: 'w' } as Workflow
  const all = ['a', 'b', 'c', 'd'].map((step) => ({ workflow, running: [step], place: -1 }))
  for (const run of all) runs.begin(run)
  const steps = () => runs.statesOf(['w'])[0]?.steps
  assert.equal(steps(), ['a', 'b', 'c', 'd'])
  const [a, b, c, d] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0], (typeof all)[0]]
  runs.end(b, 'completed')
  assert.equal(steps(), ['a', 'c', 'd'])
  runs.end(d, 'failed')
  assert.equal(steps(), ['a', 'c'])
  runs.end(a, 'waiting')
  assert.equal(steps(), ['c'])
  runs.begin(b)
  runs.end(c, 'completed')
  assert.equal(runs.statesOf(['w']), [{ name: 'w', running: 1, steps: ['b'], completed: 2, failed: 1 }])
})

test.run()
