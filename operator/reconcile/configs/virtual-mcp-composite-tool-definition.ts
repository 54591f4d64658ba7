import { type VirtualMCPCompositeToolDefinition, virtualMcpCompositeToolDefinition } from '../../../crds/index.ts'
import type { ClusterView } from '../../model/view.ts'
import type { ExplainedPlan, ReconcileContext } from '../outcome/plan.ts'
import { problemText, startProblems } from '../outcome/problems.ts'
import { checkNotRefused } from '../outcome/supported.ts'
import { startResolver } from '../references/resolver.ts'
import { type CheckConfig, planConfig } from './config.ts'

type Step = VirtualMCPCompositeToolDefinition['spec']['steps'][number]

/** Steps that wait for each other and so can never start, in the order of the definition. */
function stepsInCycles(steps: readonly Step[]): readonly string[] {
  const waiting = new Map(steps.map((step) => [step.id, new Set(step.dependsOn ?? [])]))
  for (let before = -1; before !== waiting.size; ) {
    before = waiting.size
    for (const [id, needs] of waiting) if (![...needs].some((need) => waiting.has(need))) waiting.delete(id)
  }
  return [...waiting.keys()]
}

const checkWorkflow: CheckConfig<typeof virtualMcpCompositeToolDefinition> = (object, { problems }) => {
  checkNotRefused(virtualMcpCompositeToolDefinition, object, problems)
  const { steps } = object.spec
  const ids = new Set(steps.map(({ id }) => id))
  steps.forEach(({ dependsOn = [] }, at) => {
    for (const id of dependsOn) {
      const pointer = `/spec/steps/${at}/dependsOn`
      if (!ids.has(id))
        problems.add('Valid', 'ConfigInvalid', { pointer, message: `there is no step ${JSON.stringify(id)}` })
    }
  })
  const stuck = stepsInCycles(steps)
  if (stuck.length > 0)
    problems.add('Valid', 'ConfigInvalid', {
      pointer: '/spec/steps',
      message: `these wait for each other: ${stuck.join(', ')}`,
    })
}

const plan = planConfig(virtualMcpCompositeToolDefinition, checkWorkflow)

/** As every config, and what is wrong with the workflow one by one. */
export function reconcileVirtualMcpCompositeToolDefinition(
  object: VirtualMCPCompositeToolDefinition,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const problems = startProblems()
  checkWorkflow(object, startResolver(view, object.metadata.namespace, problems))
  const validationErrors = problems.of('Valid').map(problemText)
  const planned = plan(object, view, context)
  const validationStatus = validationErrors.length === 0 ? 'Valid' : 'Invalid'
  return { ...planned, status: { ...planned.status, validationErrors, validationStatus } }
}
