import { isObject } from '../../../crds/settings/json.ts'
import type { JsonSchema } from './json-schema.ts'
import type { Path } from './template.ts'
import type { Reading, Use } from './values.ts'

const OF_STEP: ReadonlySet<string> = new Set(['output', 'status', 'error', 'action', 'content'])

/** The names that the templates of one step, or of the output, may use. */
export interface Known {
  readonly parameters: JsonSchema
  /** All steps, and those that are done before the templates are evaluated. */
  readonly steps: ReadonlySet<string>
  readonly before: ReadonlySet<string>
}

/** Reports paths that lead nowhere, or to a value that may not exist yet. */
export function checkPaths(uses: readonly Use[], known: Known, reading: Reading): void {
  for (const { pointer, paths, itemName } of uses)
    for (const path of paths) {
      const message = findProblem(path, known, itemName)
      if (message !== undefined) reading.find(pointer, `${message} (character ${path.at + 1})`)
    }
}

/** Returns the steps to which templates refer. */
export const stepsRead = (uses: readonly Use[]): ReadonlySet<string> =>
  new Set(
    uses.flatMap(({ paths }) =>
      paths.flatMap(({ root, steps: [id] }) => (root === 'steps' && id !== undefined ? [id] : [])),
    ),
  )

function findProblem(path: Path, known: Known, itemName: string | undefined): string | undefined {
  if (path.root === 'params') return parameterProblem(path, known)
  return path.root === 'steps' ? stepProblem(path, known) : itemProblem(path, itemName)
}

function parameterProblem({ steps: [name] }: Path, { parameters }: Known): string | undefined {
  const { properties, additionalProperties = false } = parameters
  if (name === undefined || !isObject(properties) || additionalProperties !== false) return undefined
  return Object.hasOwn(properties, name) ? undefined : `there is no parameter ${JSON.stringify(name)}`
}

function stepProblem({ steps: [id, member] }: Path, { steps, before }: Known): string | undefined {
  if (id === undefined) return '.steps must be followed by the id of a step'
  if (!steps.has(id)) return `there is no step ${JSON.stringify(id)}`
  if (!before.has(id)) return `refers to step ${JSON.stringify(id)}, which may still be running: name it in dependsOn`
  return member !== undefined && OF_STEP.has(member)
    ? undefined
    : `.steps.${id} must be followed by one of ${[...OF_STEP].join(', ')}`
}

function itemProblem({ steps: [name] }: Path, itemName: string | undefined): string | undefined {
  if (itemName === undefined) return '.forEach is only available in the repeated step'
  return name === 'item' || name === 'index' || name === itemName
    ? undefined
    : `.forEach must be followed by item, index${itemName === 'item' ? '' : ` or ${itemName}`}`
}
