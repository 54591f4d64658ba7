import { type VirtualMCPCompositeToolDefinition, virtualMcpCompositeToolDefinition } from '../../../crds/index.ts'
import { limits } from '../../../crds/settings/limits.ts'
import { workflowFindings } from '../../../dataplane/config/check/workflows.ts'
import type { ClusterView } from '../../model/view.ts'
import { checkSupported } from '../outcome/findings.ts'
import { type ExplainedPlan, formatProblem, type ReconcileContext } from '../outcome/plan.ts'
import type { CheckConfig } from '../references/references.ts'
import { planConfig } from './config.ts'

/** The pointer at which the data plane's rules see the one definition that they check. */
const THERE = '/compositeTools/0'

/** Finds what is wrong with a definition by the rules of the gateways that run it. */
export const checkDefinition: CheckConfig<typeof virtualMcpCompositeToolDefinition> = (object, { problems }) => {
  checkSupported(virtualMcpCompositeToolDefinition, object, problems)
  for (const { pointer, message } of workflowFindings({ compositeTools: [object.spec], role: 'gateway' }))
    problems.refuse(`/spec${pointer.slice(THERE.length)}`, message, ': ')
}

const plan = planConfig(virtualMcpCompositeToolDefinition, checkDefinition)

function limitTexts(texts: readonly string[]): readonly string[] {
  const first = texts.length > limits.list ? texts.slice(0, limits.list - 1) : texts
  const rest = texts.length - first.length
  const told = first.map((text) => (text.length > limits.prose ? `${text.slice(0, limits.prose - 1)}…` : text))
  return rest === 0 ? told : [...told, `and ${rest} more`]
}

/** Plans a definition like any config, and lists each problem of its workflow. */
export function reconcileVirtualMcpCompositeToolDefinition(
  object: VirtualMCPCompositeToolDefinition,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const planned = plan(object, view, context)
  const invalid = planned.problems.filter(({ condition }) => condition === 'Valid')
  const validationStatus = invalid.length === 0 ? 'Valid' : 'Invalid'
  return {
    ...planned,
    status: { ...planned.status, validationErrors: limitTexts(invalid.map(formatProblem)), validationStatus },
  }
}
