import type { PolicyJson } from '@cedar-policy/cedar-wasm/nodejs'
import { isObject } from '../../../crds/settings/json.ts'
import { compileCondition, entityOf, UNSURE, Unsupported } from './expression.ts'
import type { Entity, Situation } from './situation.ts'

/** Tells whether a policy applies. Throws UNSURE. */
export type Applies = (situation: Situation) => boolean

export interface Evaluated {
  readonly effect: 'permit' | 'forbid'
  readonly applies: Applies
}

/** Compiles a policy; undefined if it has unsupported parts. */
export function evaluated({ effect, principal, action, resource, conditions }: PolicyJson): Evaluated | undefined {
  try {
    const parts = [
      scope(principal, (situation) => situation.principal),
      scope(action, (situation) => situation.action),
      scope(resource, (situation) => situation.resource),
      ...conditions.map(({ kind, body }) => condition(kind, body)),
    ]
    return { effect, applies: (situation) => parts.every((part) => part(situation)) }
  } catch (error) {
    if (error instanceof Unsupported) return undefined
    throw error
  }
}

function condition(kind: unknown, body: unknown): Applies {
  const holds = compileCondition(body)
  if (kind === 'when') return holds
  if (kind === 'unless') return (situation) => !holds(situation)
  throw new Unsupported('a condition')
}

/** Compiles the scope of one variable (Cedar, JSON policy format). */
function scope(constraint: unknown, of: (situation: Situation) => Entity): Applies {
  const { op, entity, entities, entity_type: type, in: above } = isObject(constraint) ? constraint : {}
  const isBelow = (others: readonly Entity[]): Applies => {
    return (situation) => others.some((other) => situation.isIn(of(situation), other))
  }
  switch (op) {
    case 'All':
      return () => true
    case '==': {
      const { key } = scoped(entity)
      return (situation) => of(situation).key === key
    }
    case 'in':
      return isBelow(Array.isArray(entities) ? entities.map(scoped) : [scoped(entity)])
    case 'is': {
      const isBelowToo = above === undefined ? () => true : isBelow([scoped(isObject(above) ? above['entity'] : above)])
      return (situation) => of(situation).type === type && isBelowToo(situation)
    }
    default:
      throw new Unsupported('a scope')
  }
}

/** Returns the entity of a scope, which may be plain or escaped. */
const scoped = (value: unknown): Entity =>
  entityOf(isObject(value) && isObject(value['__entity']) ? value['__entity'] : value)

/**
 * Returns the decision: allowed if one policy permits and none forbids. Undefined if the engine must evaluate one: it
 * may have an error, which denies.
 */
export function decide(policies: readonly Evaluated[], situation: Situation): boolean | undefined {
  let isPermitted = false
  try {
    for (const { effect, applies } of policies) {
      if (!applies(situation)) continue
      if (effect === 'forbid') return false
      isPermitted = true
    }
    return isPermitted
  } catch (error) {
    if (error === UNSURE) return undefined
    throw error
  }
}
