import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { KubernetesObject } from '../../../../operator/model/view.ts'
import type { Plan } from '../../../../operator/reconcile/outcome/plan.ts'
import type { ChildProblem } from '../../../../operator/runtime/children/child-problem.ts'
import { withProblems } from '../../../../operator/runtime/report/status-writer.ts'

const object = { apiVersion: 'a/v1', kind: 'MCPServer', metadata: { name: 'w', namespace: 'd', generation: 2 } }
const condition = (type: string, status: string) => ({ type, status, reason: 'R', message: 'm', observedGeneration: 2 })

function statusWith(reason: ChildProblem['reason'], phase: string, ready: 'True' | 'False', kind = 'MCPServer') {
  const conditions = [condition('Ready', ready), ...(ready === 'False' ? [condition('Reconciling', 'True')] : [])]
  const plan = { status: { conditions, observedGeneration: 2, phase, message: 'm' } } as unknown as Plan
  const status = withProblems({ ...object, kind } as KubernetesObject, plan, [{ reason, message: 'why', waits: false }])
  const statuses = Object.fromEntries(status.conditions.map(({ type, status }) => [type, status]))
  return { ...statuses, phase: status['phase'], message: status['message'] }
}

for (const [phase, ready] of [
  ['Ready', 'True'],
  ['Degraded', 'False'],
  ['Pending', 'False'],
] as const)
  test(`a child that is refused for good stalls its owner, which was ${phase}`, () => {
    for (const reason of ['ChildRefused', 'NameTaken'] as const)
      assert.equal(statusWith(reason, phase, ready), {
        Ready: 'False',
        Stalled: 'True',
        phase: 'Failed',
        message: 'why',
      })
  })

test('a problem that passes by itself is no stall, and the phase agrees with Ready', () => {
  for (const reason of ['ChildTerminating', 'ChildContested', 'KindNotServed'] as const) {
    const waits = { Ready: 'False', Reconciling: 'True', message: 'why' }
    assert.equal(statusWith(reason, 'Ready', 'True'), { ...waits, phase: 'Degraded' })
    assert.equal(statusWith(reason, 'Pending', 'False'), { ...waits, phase: 'Pending' })
    assert.equal(statusWith(reason, 'Terminating', 'False'), { ...waits, phase: 'Terminating' })
  }
})

test('a finalizer that is refused leaves a kind without pods a phase that its definition knows', () => {
  for (const kind of ['MCPGroup', 'MCPServerEntry']) {
    assert.equal(statusWith('FinalizerRefused', 'Ready', 'True', kind), {
      Ready: 'False',
      Reconciling: 'True',
      phase: 'Pending',
      message: 'm',
    })
  }
})

test.run()
