import type { Condition } from './plan.ts'
import { problemConditions } from './problems.ts'

/** Conditions that keep an object from being served in its current form when they are False. */
const decisive: ReadonlySet<string> = new Set(problemConditions)
/** Tells whether a condition reports a problem when it is True. All others do when they are False. */
const isWarningType = (type: string) => /(Warning|Conflict|Taken|Synthesized|Truncated)$/.test(type)
/** Reasons for `Ready` = False that are no problem. */
const transient = new Set(['Progressing', 'Terminating'])

export interface ConditionProblem {
  readonly condition: string
  readonly severity: 'error' | 'warning'
  readonly reason: string
  readonly message: string
}

interface Conditioned {
  readonly status: { readonly conditions: readonly Condition[] }
}

/** Collects what the owner should act on from the conditions of a plan or of an object, each text once. */
export function conditionProblems({ status }: Conditioned): readonly ConditionProblem[] {
  const found: ConditionProblem[] = []
  const add = (severity: ConditionProblem['severity'], { type, reason, message }: Condition) => {
    if (!found.some((problem) => problem.message === message))
      found.push({ condition: type, severity, reason, message })
  }
  const { conditions } = status
  for (const condition of conditions) {
    if (decisive.has(condition.type) && condition.status === 'False') add('error', condition)
  }
  const ready = conditions.find(({ type }) => type === 'Ready')
  if (found.length === 0 && ready?.status === 'False' && !transient.has(ready.reason)) add('error', ready)
  for (const condition of conditions) {
    const { type } = condition
    const isWarning = condition.status === (isWarningType(type) ? 'True' : 'False')
    if (isWarning && type !== 'Ready' && !decisive.has(type)) add('warning', condition)
  }
  return found
}
