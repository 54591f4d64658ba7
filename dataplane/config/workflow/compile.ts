import { createHash } from 'node:crypto'
import { parseDuration, parseTimer } from '../../../crds/settings/duration.ts'
import { at, isObject } from '../../../crds/settings/json.ts'
import { atOnce, type Steps, stepwise } from '../../../crds/settings/stepwise.ts'
import { duplicates } from '../check/lists.ts'
import type { CompositeToolConfig, RepeatedStepConfig, StepConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import type { ForEachStep, OnError, Output, OutputProperty, SimpleStep, Step, Workflow } from './compiled.ts'
import { findViolation, type JsonSchema, schemaFindings } from './json-schema.ts'
import { workflowLimits } from './limits.ts'
import type { Path } from './template.ts'
import { Reading, type Use } from './values.ts'

const NO_PARAMETERS: JsonSchema = { type: 'object', properties: {} }

/**
 * Compiles the definition of a composite tool. With `findings` it must not be used. Linear, except for dependencies of
 * steps.
 */
export const compileWorkflow = (definition: CompositeToolConfig): CompiledWorkflow =>
  known.get(definition) ?? atOnce(compileInSteps(definition))

/** Compiles definitions in steps, and caches the results for `compileWorkflow`. */
export const compileStepwise = (definitions: readonly CompositeToolConfig[]): Promise<void> =>
  stepwise(compilingAll(definitions))

function* compilingAll(definitions: readonly CompositeToolConfig[]): Steps<void> {
  for (const definition of definitions) {
    known.set(definition, yield* compileInSteps(definition))
    yield
  }
}

/** The compiled definitions of configurations that a gateway has read. */
const known = new WeakMap<CompositeToolConfig, CompiledWorkflow>()

interface CompiledWorkflow {
  readonly workflow: Workflow
  readonly findings: readonly Finding[]
}

function* compileInSteps(definition: CompositeToolConfig): Steps<CompiledWorkflow> {
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

function* readSteps({ steps }: CompositeToolConfig, parameters: JsonSchema, reading: Reading): Steps<readonly Step[]> {
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

function listTools(steps: readonly Step[]): readonly string[] {
  const names = steps.flatMap((step) => {
    const simple = step.type === 'forEach' ? step.step : step
    return simple.type === 'tool' ? [simple.tool] : []
  })
  return [...new Set(names)]
}

/** Returns the steps that wait for each other and so can never start, in the order of the definition. */
function stepsInCycles(steps: readonly StepConfig[]): readonly string[] {
  const waiting = new Map(steps.map((step) => [step.id, new Set(step.dependsOn ?? [])]))
  for (let before = -1; before !== waiting.size; ) {
    before = waiting.size
    for (const [id, needs] of waiting) if (![...needs].some((need) => waiting.has(need))) waiting.delete(id)
  }
  return [...waiting.keys()]
}

/** Returns for each step the steps that are done before it, directly or not. The steps must have no cycles. */
function stepsBefore(steps: readonly StepConfig[]): ReadonlyMap<string, ReadonlySet<string>> {
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

interface Place {
  readonly reading: Reading
  readonly pointer: string
  readonly uses: Use[]
}

function compileStep(step: StepConfig, place: Place): Step {
  const { dependsOn = [], type } = step
  if (type !== 'forEach')
    refuse(
      step,
      place,
      ['collection', 'itemVar', 'maxIterations', 'maxParallel', 'step'],
      'belongs to a step of type forEach',
    )
  const compiled = type === 'forEach' ? forEach(step, place) : simple({ ...step, type }, place)
  return { ...compiled, dependsOn, reads: stepsRead(place.uses) }
}

function common(step: RepeatedStepConfig | StepConfig, place: Place, longest: number, usual: number) {
  const { reading, pointer, uses } = place
  const { condition, timeout, defaultResults } = step
  const timeoutMs = timeout === undefined ? usual : parseTimer(timeout)
  if (timeoutMs <= 0 || timeoutMs > longest)
    reading.find(`${pointer}/timeout`, `must be more than zero and at most ${longest / 60_000}m`)
  return {
    id: step.id ?? '',
    condition: condition === undefined ? undefined : reading.template(condition, `${pointer}/condition`, uses),
    timeoutMs,
    onError: compileOnError(step),
    defaultResults,
  }
}

function compileOnError({ onError }: Pick<StepConfig, 'onError'>): OnError {
  const { action = 'abort', retryCount = workflowLimits.retries, retryDelay } = onError ?? {}
  const delayMs = retryDelay === undefined ? workflowLimits.retryDelayMs : parseTimer(retryDelay)
  return { action, retries: action === 'retry' ? retryCount : 0, delayMs }
}

function simple(step: RepeatedStepConfig, place: Place): SimpleStep {
  return step.type === 'elicitation' ? elicitation(step, place) : tool(step, place)
}

function tool(step: RepeatedStepConfig, place: Place): SimpleStep {
  const { reading, pointer, uses } = place
  if (step.tool === undefined) reading.find(pointer, 'a step of type tool needs tool')
  refuse(step, place, ['message', 'schema', 'onDecline', 'onCancel'], 'belongs to a step of type elicitation')
  return {
    ...common(step, place, workflowLimits.workflowMs, workflowLimits.stepMs),
    type: 'tool',
    tool: step.tool ?? '',
    arguments: reading.values(step.arguments ?? {}, `${pointer}/arguments`, uses),
  }
}

function elicitation(step: RepeatedStepConfig, place: Place): SimpleStep {
  const { reading, pointer, uses } = place
  const { message, schema, onDecline, onCancel } = step
  if (message === undefined || schema === undefined)
    reading.find(pointer, 'a step of type elicitation needs message and schema')
  refuse(step, place, ['tool', 'arguments'], 'belongs to a step of type tool')
  if (schema !== undefined) checkAnswerSchema(schema, place)
  return {
    ...common(step, place, workflowLimits.longestElicitationMs, workflowLimits.elicitationMs),
    type: 'elicitation',
    message: reading.template(message ?? '', `${pointer}/message`, uses),
    schema: schema ?? {},
    onDecline: onDecline?.action ?? 'abort',
    onCancel: onCancel?.action ?? 'abort',
  }
}

/** Checks the schema of an answer: MCP requires a flat object. */
function checkAnswerSchema(schema: Readonly<Record<string, unknown>>, { reading, pointer }: Place): void {
  const there = `${pointer}/schema`
  if (JSON.stringify(schema).length > workflowLimits.schema)
    reading.find(there, `has more than ${workflowLimits.schema} characters`)
  else if (schema['type'] !== 'object' || !isObject(schema['properties']))
    reading.find(there, 'must be of type object and have properties: clients can ask for nothing else')
  else reading.findings.push(...schemaFindings(schema, there, workflowLimits.schemaDepth))
}

function forEach(step: StepConfig, place: Place): ForEachStep {
  const { reading, pointer, uses } = place
  const { collection, itemVar, maxIterations, maxParallel, step: repeated } = step
  if (collection === undefined || repeated === undefined)
    reading.find(pointer, 'a step of type forEach needs collection and step')
  refuse(
    step,
    place,
    ['tool', 'arguments', 'message', 'schema', 'onDecline', 'onCancel'],
    'belongs to the step that is repeated, in `step`',
  )
  const inner: Use[] = []
  const itemName = itemVar ?? 'item'
  const repeats = simple(repeated ?? { type: 'tool', tool: '' }, { reading, pointer: at(pointer, 'step'), uses: inner })
  uses.push(...inner.map((use) => ({ ...use, itemName })))
  return {
    ...common(step, place, workflowLimits.workflowMs, workflowLimits.workflowMs),
    type: 'forEach',
    collection: reading.template(collection ?? '', `${pointer}/collection`, uses),
    itemName,
    mostItems: maxIterations ?? workflowLimits.items,
    parallel: maxParallel ?? workflowLimits.parallel,
    step: repeats,
  }
}

function refuse(step: object, { reading, pointer }: Place, fields: readonly string[], why: string): void {
  for (const field of fields) if (Object.hasOwn(step, field)) reading.find(at(pointer, field), why)
}

const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'number', 'boolean', 'object', 'array'])
const FIELDS: ReadonlySet<string> = new Set(['type', 'description', 'value', 'default', 'properties'])

function readOutput(
  { steps }: CompositeToolConfig,
  parameters: JsonSchema,
  { properties, required = [] }: NonNullable<CompositeToolConfig['output']>,
  reading: Reading,
): Output {
  const uses: Use[] = []
  for (const [index, name] of required.entries())
    if (!Object.hasOwn(properties, name))
      reading.find(`/output/required/${index}`, 'names a property that does not exist')
  const place = { reading, uses, pointer: '/output/properties' }
  const compiled = compileAll(properties, place, workflowLimits.schemaDepth)
  const ids = new Set(steps.map(({ id }) => id))
  checkPaths(uses, { parameters, steps: ids, before: ids }, reading)
  return { properties: compiled, required, reads: stepsRead(uses) }
}

const compileAll = (properties: JsonSchema, place: Place, depth: number): Record<string, OutputProperty> =>
  Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [
      name,
      compileProperty(property, { ...place, pointer: at(place.pointer, name) }, depth),
    ]),
  )

function compileProperty(property: unknown, place: Place, depth: number): OutputProperty {
  const { reading, uses, pointer } = place
  const given = isObject(property) ? property : {}
  checkProperty(given, place, depth)
  const { type, value, default: fallback, properties } = given
  return {
    type: type as OutputProperty['type'],
    value: typeof value === 'string' ? reading.template(value, at(pointer, 'value'), uses) : undefined,
    fallback,
    properties:
      isObject(properties) && depth > 0
        ? compileAll(properties, { ...place, pointer: at(pointer, 'properties') }, depth - 1)
        : undefined,
  }
}

/** Checks a property. The schema leaves properties within properties unchecked. */
function checkProperty(property: JsonSchema, { reading, pointer }: Place, depth: number): void {
  const { type, value, default: fallback, properties } = property
  const find = (field: string, message: string) => reading.find(at(pointer, field), message)
  for (const name of Object.keys(property)) if (!FIELDS.has(name)) find(name, 'unknown field')
  if (!TYPES.has(type)) find('type', `must be one of ${[...TYPES].join(', ')}`)
  else if (fallback !== undefined && findViolation({ type }, fallback) !== undefined)
    find('default', `must be of type ${String(type)}`)
  if (value !== undefined && typeof value !== 'string') find('value', 'must be a template, which is a string')
  if (value === undefined && properties === undefined && fallback === undefined)
    reading.find(pointer, 'needs value, or properties that have values')
  const mayHaveMembers = type === 'object' && value === undefined && depth > 0
  if (properties !== undefined && !(mayHaveMembers && isObject(properties)))
    find('properties', 'must belong to an object that has no value, and must not nest too deep')
}

/** Returns the JSON schema of the structured result, which clients see. */
function buildOutputSchema({ properties, required = [] }: NonNullable<CompositeToolConfig['output']>): JsonSchema {
  return { type: 'object', properties: buildSchemas(properties), ...(required.length === 0 ? {} : { required }) }
}

const buildSchemas = (properties: JsonSchema): JsonSchema =>
  Object.fromEntries(
    Object.entries(properties).map(([name, property]) => {
      const { type, description, properties: inner } = isObject(property) ? property : {}
      return [
        name,
        {
          type,
          ...(description === undefined ? {} : { description }),
          ...(isObject(inner) ? { properties: buildSchemas(inner) } : {}),
        },
      ]
    }),
  )

const OF_STEP: ReadonlySet<string> = new Set(['output', 'status', 'error', 'action', 'content'])

/** The names that the templates of one step, or of the output, may use. */
interface Known {
  readonly parameters: JsonSchema
  /** All steps, and those that are done before the templates are evaluated. */
  readonly steps: ReadonlySet<string>
  readonly before: ReadonlySet<string>
}

/** Reports paths that lead nowhere, or to a value that may not exist yet. */
function checkPaths(uses: readonly Use[], known: Known, reading: Reading): void {
  for (const { pointer, paths, itemName } of uses)
    for (const path of paths) {
      const message = findProblem(path, known, itemName)
      if (message !== undefined) reading.find(pointer, `${message} (character ${path.at + 1})`)
    }
}

/** Returns the steps to which templates refer. */
const stepsRead = (uses: readonly Use[]): ReadonlySet<string> =>
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
