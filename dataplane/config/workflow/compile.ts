import { createHash } from 'node:crypto'
import { parseDuration } from '../../../crds/settings/duration.ts'
import { atOnce, type Steps, stepwise } from '../../../crds/settings/stepwise.ts'
import { duplicates } from '../check/lists.ts'
import type { Finding } from '../load.ts'
import { checkPaths } from './check-paths.ts'
import { buildOutputSchema, compileOutput } from './compile-output.ts'
import { compileStep } from './compile-step.ts'
import type { Output, Step, Workflow } from './compiled.ts'
import type { Definition } from './definition.ts'
import { type JsonSchema, schemaFindings } from './json-schema.ts'
import { workflowLimits } from './limits.ts'
import { Reading, type Use } from './values.ts'

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/**
 * Compiles the definition of a composite tool. With `findings` it must not be used. Linear, except for dependencies of
 * steps.
 */
export const compileWorkflow = (definition: Definition): CompiledWorkflow =>
  known.get(definition) ?? atOnce(compiling(definition))

/** Compiles definitions in steps, and caches the results for `compileWorkflow`. */
export const compileStepwise = (definitions: readonly Definition[]): Promise<void> =>
  stepwise(compilingAll(definitions))

function* compilingAll(definitions: readonly Definition[]): Steps<void> {
  for (const definition of definitions) {
    known.set(definition, yield* compiling(definition))
    yield
  }
}

/** The compiled definitions of configurations that a gateway has read. */
const known = new WeakMap<Definition, CompiledWorkflow>()

interface CompiledWorkflow {
  readonly workflow: Workflow
  readonly findings: readonly Finding[]
}

function* compiling(definition: Definition): Steps<CompiledWorkflow> {
  const reading = new Reading()
  const { name, description, annotations = {}, timeout, output } = definition
  const parameters = definition.parameters ?? NO_PARAMETERS
  const timeoutMs = timeout === undefined ? workflowLimits.workflowMs : parseDuration(timeout)
  checkParameters(parameters, reading)
  if (timeoutMs <= 0 || timeoutMs > workflowLimits.workflowMs)
    reading.find('/timeout', 'must be more than zero and at most 30m')
  yield
  const steps = yield* readSteps(definition, parameters, reading)
  const text = JSON.stringify(definition)
  const workflow = {
    name,
    description,
    parameters: { type: 'object', ...parameters },
    annotations,
    timeoutMs,
    steps,
    output: output === undefined ? undefined : readOutput(definition, parameters, output, reading),
    outputSchema: output === undefined ? undefined : buildOutputSchema(output),
    tools: listTools(steps),
    digest: createHash('sha256').update(text).digest('base64url'),
    size: text.length,
  }
  return { workflow, findings: reading.findings }
}

function checkParameters(parameters: JsonSchema, reading: Reading): void {
  const { type = 'object' } = parameters
  if (type !== 'object') reading.find('/parameters/type', 'must be object: arguments have names')
  else reading.findings.push(...schemaFindings(parameters, '/parameters', workflowLimits.parametersDepth))
}

function* readSteps({ steps }: Definition, parameters: JsonSchema, reading: Reading): Steps<readonly Step[]> {
  reading.findings.push(...duplicates(steps, ({ id }) => id, '/steps', '/id'))
  const ids = new Set(steps.map(({ id }) => id))
  steps.forEach(({ id, dependsOn = [] }, index) => {
    for (const [position, other] of dependsOn.entries()) {
      const pointer = `/steps/${index}/dependsOn/${position}`
      if (!ids.has(other)) reading.find(pointer, `there is no step ${JSON.stringify(other)}`)
      else if (other === id) reading.find(pointer, 'a step must not depend on itself')
    }
  })
  const stuck = stepsInCycles(steps.filter(({ id, dependsOn = [] }) => !dependsOn.includes(id)))
  if (stuck.length > 0) reading.find('/steps', `these wait for each other: ${stuck.join(', ')}`)
  const before = stepsBefore(steps)
  const compiled: Step[] = []
  for (const [index, step] of steps.entries()) {
    const uses: Use[] = []
    compiled.push(compileStep(step, { reading, pointer: `/steps/${index}`, uses }))
    checkPaths(uses, { parameters, steps: ids, before: before.get(step.id) ?? new Set() }, reading)
    yield
  }
  return compiled
}

function readOutput(
  { steps }: Definition,
  parameters: JsonSchema,
  output: NonNullable<Definition['output']>,
  reading: Reading,
): Output {
  const uses: Use[] = []
  const compiled = compileOutput(output, reading, uses)
  const ids = new Set(steps.map(({ id }) => id))
  checkPaths(uses, { parameters, steps: ids, before: ids }, reading)
  return compiled
}

function listTools(steps: readonly Step[]): readonly string[] {
  const names = steps.flatMap((step) => {
    const simple = step.type === 'forEach' ? step.step : step
    return simple.type === 'tool' ? [simple.tool] : []
  })
  return [...new Set(names)]
}

/** Returns the steps that wait for each other and so can never start, in the order of the definition. */
function stepsInCycles(
  steps: readonly { readonly id: string; readonly dependsOn?: readonly string[] }[],
): readonly string[] {
  const waiting = new Map(steps.map((step) => [step.id, new Set(step.dependsOn ?? [])]))
  for (let before = -1; before !== waiting.size; ) {
    before = waiting.size
    for (const [id, needs] of waiting) if (![...needs].some((need) => waiting.has(need))) waiting.delete(id)
  }
  return [...waiting.keys()]
}

/** Returns for each step the steps that are done before it, directly or not. The steps must have no cycles. */
function stepsBefore(
  steps: readonly { readonly id: string; readonly dependsOn?: readonly string[] }[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const needs = new Map(steps.map(({ id, dependsOn = [] }) => [id, dependsOn]))
  return new Map(
    steps.map(({ id }) => {
      const before = new Set<string>()
      const open = [...(needs.get(id) ?? [])]
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        if (before.has(next)) continue
        before.add(next)
        open.push(...(needs.get(next) ?? []))
      }
      return [id, before]
    }),
  )
}
