import { isObject } from '../../../crds/settings/json.ts'
import { workflowLimits } from '../../config/workflow/limits.ts'
import type { Expression, Part, Template } from '../../config/workflow/template.ts'
import type { Values } from '../../config/workflow/values.ts'
import { digitsOf } from './exact-json.ts'
import { StepFailure } from './failure.ts'
import { functions, isTrue, toText } from './functions.ts'

export interface Scope {
  readonly params: unknown
  readonly steps: unknown
  readonly forEach: unknown
}

/**
 * Evaluates a template: a single expression keeps its JSON type, everything else is a text; undefined if a path leads
 * nowhere. Throws a StepFailure.
 */
export function evaluate({ whole, parts }: Template, scope: Scope): unknown {
  if (whole !== undefined) return evaluated(whole, scope)
  const text = new GrowingText()
  show(parts, scope, text)
  return text.whole
}

export function textFrom(template: Template, scope: Scope): string {
  return toText(evaluate(template, scope))
}

/** Evaluates the templates in JSON; members and arguments whose path leads nowhere are left out. */
export function evaluateValues(values: Values, scope: Scope): unknown {
  switch (values.kind) {
    case 'constant':
      return values.value
    case 'template':
      return evaluate(values.template, scope)
    case 'list':
      return values.items.map((item) => evaluateValues(item, scope) ?? null)
    default:
      return Object.fromEntries(values.members.map(([name, value]) => [name, evaluateValues(value, scope)]))
  }
}

/** A text that is built from parts, up to a bound. */
class GrowingText {
  whole = ''

  add(text: string): void {
    if (this.whole.length + text.length > workflowLimits.output)
      throw new StepFailure('a template gives more than 10 MB')
    this.whole += text
  }
}

function show(parts: readonly Part[], scope: Scope, text: GrowingText): void {
  for (const part of parts) {
    if (typeof part === 'string') text.add(part)
    else if (part.kind !== 'choice') text.add(toText(evaluated(part, scope)))
    else {
      const branch = part.branches.find(({ condition }) => isTrue(evaluated(condition, scope)))
      show(branch?.parts ?? part.otherwise, scope, text)
    }
  }
}

function evaluated(expression: Expression, scope: Scope): unknown {
  switch (expression.kind) {
    case 'literal':
      return expression.value
    case 'path':
      return within(scope[expression.root], expression.steps)
    case 'member':
      return within(evaluated(expression.of, scope), expression.steps)
    default:
      return call(expression.name, expression.args, scope)
  }
}

function call(name: string, args: readonly Expression[], scope: Scope): unknown {
  // Only these functions may leave arguments out.
  if (name === 'and' || name === 'or') {
    let value: unknown
    for (const arg of args) {
      value = evaluated(arg, scope)
      if (isTrue(value) === (name === 'or')) break
    }
    return value
  }
  const run = functions.get(name)
  if (run === undefined) throw new TypeError(`no function ${name}`)
  return run(args.map((arg) => evaluated(arg, scope)))
}

/** Returns the value at a path: only own members of objects, so that inherited names mean nothing. */
function within(value: unknown, steps: readonly string[]): unknown {
  let at = value
  for (const step of steps) {
    if (!isObject(at) || !Object.hasOwn(at, step) || digitsOf(at) !== undefined) return undefined
    at = at[step]
  }
  return at
}
