import { isObject } from '../../crds/settings/json.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import type { Condition } from '../../operator/reconcile/index.ts'
import { conditionProblems } from '../../operator/reconcile/outcome/plan.ts'
import { reasonHelp, reasonText } from './reasons.ts'

export type State = 'ill' | 'attention' | 'well' | 'unknown'

/** A problem, with its meaning and the next step. */
export interface Trouble {
  readonly condition: string
  readonly severity: 'error' | 'warning'
  readonly reason: string
  readonly message: string
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
  const text = reasonText(given.reason)
  return { ...given, meaning: text?.meaning ?? null, next: text?.next ?? null, help: reasonHelp(given.reason) }
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
