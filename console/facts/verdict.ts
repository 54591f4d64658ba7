import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { fileReasons, reasons as operatorReasons } from '../../operator/model/reasons.ts'
import type { Condition } from '../../operator/reconcile/index.ts'
import { type ConditionProblem, conditionProblems } from '../../operator/reconcile/outcome/plan.ts'

export type State = 'ill' | 'attention' | 'well' | 'unknown'

/** A problem, with its meaning and the next step. */
export interface Trouble extends ConditionProblem {
  /** RFC 3339; null if unknown. */
  readonly since: string | null
  readonly meaning: string | null
  readonly next: string | null
  readonly help: string
}

export interface Verdict {
  readonly state: State
  readonly troubles: readonly Trouble[]
}

const SEVERITY: Readonly<Record<State, number>> = { ill: 0, attention: 1, unknown: 2, well: 3 }
/** Compares states, the worst first. */
export const byState = (left: State, right: State): number => SEVERITY[left] - SEVERITY[right]

const isCondition = (value: unknown): value is Condition =>
  isObject(value) && ['type', 'status', 'reason', 'message'].every((name) => typeof value[name] === 'string')

/** Returns the valid conditions of an object. */
export function readConditions({ status }: KubernetesObject): readonly Condition[] {
  const { conditions } = isObject(status) ? status : {}
  return Array.isArray(conditions) ? conditions.filter(isCondition) : []
}

/** Adds the text of its reason to a problem. */
export function trouble(given: Omit<Trouble, 'meaning' | 'next' | 'help'>): Trouble {
  const text = Object.hasOwn(reasons, given.reason) ? reasons[given.reason] : undefined
  const help = text === undefined ? '/help/conditions' : `/help/conditions#${given.reason}`
  return { ...given, meaning: text?.meaning ?? null, next: text?.next ?? null, help }
}

/** Derives an object's state from its conditions. */
export function judgeObject(object: KubernetesObject): Verdict {
  const conditions = readConditions(object)
  const ready = conditions.find(({ type }) => type === 'Ready')
  if (ready === undefined) return { state: 'unknown', troubles: [] }
  const troubles = conditionProblems({ status: { conditions } }).map(({ condition, severity, reason, message }) => {
    const since = conditions.find(
      ({ type, message: said }) => type === condition && said === message,
    )?.lastTransitionTime
    return trouble({ condition, severity, reason, message, since: typeof since === 'string' ? since : null })
  })
  if (troubles.some(({ severity }) => severity === 'error')) return { state: 'ill', troubles }
  // A roll-out is in progress, which is not a problem yet.
  if (ready.status !== 'True') return { state: 'attention', troubles: [...troubles, ofReady(ready)] }
  return { state: troubles.length > 0 ? 'attention' : 'well', troubles }
}

const ofReady = ({ type, reason, message, lastTransitionTime }: Condition): Trouble =>
  trouble({ condition: type, severity: 'warning', reason, message, since: lastTransitionTime ?? null })

/** The text for a reason of a condition: its meaning and what to do. */
export interface ReasonText {
  readonly meaning: string
  readonly next: string | null
}

const ofOperator = Object.entries({ ...fileReasons, ...operatorReasons }).map(
  ([reason, { means, next }]): [string, ReasonText] => [reason, { meaning: means, next: next ?? null }],
)

/** The texts of the conditions' reasons and of the server health that gateways report. The help pages list them all. */
export const reasons: Readonly<Record<string, ReasonText>> = {
  ...Object.fromEntries(ofOperator),
  unhealthy: { meaning: 'The server does not answer.', next: 'Check that it runs, its address and its port.' },
  degraded: {
    meaning: 'The server answers slowly, or its last request failed.',
    next: 'Look at the last error; it may pass.',
  },
  unauthenticated: {
    meaning: 'The server refuses the gateway’s credential.',
    next: 'Check the external auth configuration of the server.',
  },
}
