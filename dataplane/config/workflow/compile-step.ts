import { parseTimer } from '../../../crds/settings/duration.ts'
import { at, isObject } from '../../../crds/settings/json.ts'
import { stepsRead } from './check-paths.ts'
import type { ForEachStep, OnError, SimpleStep, Step } from './compiled.ts'
import type { SimpleDefinition, StepDefinition } from './definition.ts'
import { schemaFindings } from './json-schema.ts'
import { workflowLimits } from './limits.ts'
import type { Reading, Use } from './values.ts'

export interface StepPlace {
  readonly reading: Reading
  readonly pointer: string
  readonly uses: Use[]
}

export function compileStep(step: StepDefinition, place: StepPlace): Step {
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

function common(step: SimpleDefinition | StepDefinition, place: StepPlace, longest: number, usual: number) {
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

function compileOnError({ onError }: Pick<StepDefinition, 'onError'>): OnError {
  const { action = 'abort', retryCount = workflowLimits.retries, retryDelay } = onError ?? {}
  const delayMs = retryDelay === undefined ? workflowLimits.retryDelayMs : parseTimer(retryDelay)
  return { action, retries: action === 'retry' ? retryCount : 0, delayMs }
}

function simple(step: SimpleDefinition, place: StepPlace): SimpleStep {
  return step.type === 'elicitation' ? elicitation(step, place) : tool(step, place)
}

function tool(step: SimpleDefinition, place: StepPlace): SimpleStep {
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

function elicitation(step: SimpleDefinition, place: StepPlace): SimpleStep {
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
function checkAnswerSchema(schema: Readonly<Record<string, unknown>>, { reading, pointer }: StepPlace): void {
  const there = `${pointer}/schema`
  if (JSON.stringify(schema).length > workflowLimits.schema)
    reading.find(there, `has more than ${workflowLimits.schema} characters`)
  else if (schema['type'] !== 'object' || !isObject(schema['properties']))
    reading.find(there, 'must be of type object and have properties: clients can ask for nothing else')
  else reading.findings.push(...schemaFindings(schema, there, workflowLimits.schemaDepth))
}

function forEach(step: StepDefinition, place: StepPlace): ForEachStep {
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

function refuse(step: object, { reading, pointer }: StepPlace, fields: readonly string[], why: string): void {
  for (const field of fields) if (Object.hasOwn(step, field)) reading.find(at(pointer, field), why)
}
