/** A workflow: the spec of VirtualMCPCompositeToolDefinition and an element of `config.compositeTools`. */

import { limits } from '../limits.ts'
import {
  anything,
  type CelRule,
  choice,
  defaulted,
  duration,
  integer,
  list,
  map,
  object,
  type Reader,
  raw,
  Type,
  text,
} from '../schema.ts'
import { toolAnnotations } from './aggregation.ts'

const identifier = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: limits.label, pattern: '^[A-Za-z0-9_][A-Za-z0-9_-]*$' })

const template = (readBy: Reader, description: string) => text(readBy, description, { max: limits.program })

const onError = (readBy: Reader) =>
  object(
    'What happens when the step fails.',
    {
      action: defaulted(
        choice(readBy, 'Stop, go on, or try again.', ['abort', 'continue', 'retry'], { default: 'abort' }),
      ),
      retryCount: Type.Optional(integer(readBy, 'Further attempts.', { minimum: 1, maximum: 10 })),
      retryDelay: Type.Optional(duration(readBy, 'Wait between two attempts.')),
    },
    {
      rules: [
        {
          rule: "self.action == 'retry' || !(has(self.retryCount) || has(self.retryDelay))",
          message: 'retryCount and retryDelay are for action retry',
        },
      ],
    },
  )

const answer = (readBy: Reader, description: string) =>
  object(description, {
    action: defaulted(
      choice(readBy, 'Skip what is left, stop, or go on.', ['skip_remaining', 'abort', 'continue'], {
        default: 'abort',
      }),
    ),
  })

const action = (readBy: Reader) => ({
  id: identifier(readBy, 'Name of the step, unique in the workflow.'),
  tool: Type.Optional(text(readBy, 'Tool that is called, as clients see it.', { min: 1, max: limits.name })),
  arguments: Type.Optional(raw(readBy, 'Arguments of the call; texts in it may be templates.')),
  condition: Type.Optional(template(readBy, 'Template; the step is skipped unless it yields `true`.')),
  message: Type.Optional(template(readBy, 'Question to the user (elicitation).')),
  schema: Type.Optional(raw(readBy, 'JSON schema of the answer (elicitation).')),
  timeout: Type.Optional(duration(readBy, 'Longest time for this step.')),
  defaultResults: Type.Optional(raw(readBy, 'Output of the step when it is skipped or has failed.')),
  onError: Type.Optional(onError(readBy)),
  onDecline: Type.Optional(answer(readBy, 'What happens when the user declines.')),
  onCancel: Type.Optional(answer(readBy, 'What happens when the user cancels.')),
})

const toolNeedsName = {
  rule: "self.type != 'tool' || has(self.tool)",
  message: 'a step of type tool needs tool',
}
const elicitationNeedsMessage = {
  rule: "self.type != 'elicitation' || (has(self.message) && has(self.schema))",
  message: 'a step of type elicitation needs message and schema',
}

const repeated = (readBy: Reader) =>
  object(
    'The step that is repeated. It can not be a forEach itself.',
    {
      type: defaulted(choice(readBy, 'Kind of step.', ['tool', 'elicitation'], { default: 'tool' })),
      ...action(readBy),
      id: Type.Optional(identifier(readBy, 'Name of the step.')),
    },
    { rules: [toolNeedsName, elicitationNeedsMessage] },
  )

const step = (readBy: Reader) =>
  object(
    'A step.',
    {
      type: defaulted(choice(readBy, 'Kind of step.', ['tool', 'elicitation', 'forEach'], { default: 'tool' })),
      ...action(readBy),
      dependsOn: Type.Optional(
        list('Steps that must end before this one.', identifier(readBy, 'A step’s id.'), { max: limits.steps }),
      ),
      collection: Type.Optional(template(readBy, 'Template that yields the list (forEach).')),
      itemVar: Type.Optional(identifier(readBy, 'Name of the item in templates; `item` when left out (forEach).')),
      maxIterations: Type.Optional(
        integer(readBy, 'Most items; 100 when left out (forEach).', { minimum: 1, maximum: 1000 }),
      ),
      maxParallel: Type.Optional(integer(readBy, 'Items at the same time (forEach).', { minimum: 1, maximum: 50 })),
      step: Type.Optional(repeated(readBy)),
    },
    {
      rules: [
        toolNeedsName,
        elicitationNeedsMessage,
        {
          rule: "self.type == 'forEach' ? has(self.collection) && has(self.step) : !(has(self.collection) || has(self.step))",
          message: 'collection and step must be set when type is forEach, and only then',
        },
        { rule: '!has(self.dependsOn) || !(self.id in self.dependsOn)', message: 'a step can not depend on itself' },
      ],
    },
  )

const output = (readBy: Reader) =>
  object(
    'The structured result.',
    {
      properties: map(
        'Its properties.',
        object('A property.', {
          type: choice(readBy, 'JSON type.', ['string', 'integer', 'number', 'boolean', 'object', 'array']),
          description: Type.Optional(text(readBy, 'Description.', { max: limits.prose })),
          value: Type.Optional(template(readBy, 'Template that yields the value.')),
          default: Type.Optional(anything(readBy, 'Value if the template yields none.')),
          properties: Type.Optional(raw(readBy, 'Properties of an object, of the same shape.')),
        }),
      ),
      required: Type.Optional(
        list('Properties that must have a value.', text(readBy, 'A property.', { min: 1, max: limits.name })),
      ),
    },
    {
      rules: [
        {
          rule: '!has(self.required) || self.required.all(name, name in self.properties)',
          message: 'required names a property that does not exist',
        },
      ],
    },
  )

/**
 * The one-element list computes the ids once for all steps, which bounds the rule's estimated cost. Kubernetes has
 * `sets.contains` only since 1.30. Within a list of workflows the cost is too high: the configuration's own check
 * applies.
 */
const knownSteps: CelRule = {
  rule: '[self.map(step, step.id)].all(ids, self.all(step, !has(step.dependsOn) || step.dependsOn.all(id, id in ids)))',
  message: 'dependsOn names a step that does not exist',
}

const parts = (readBy: Reader, rules: readonly CelRule[]) => ({
  name: text(readBy, 'Name of the tool.', { min: 1, max: 128, pattern: '^[A-Za-z0-9_.-]+$' }),
  description: Type.Optional(text(readBy, 'Description of the tool.', { max: limits.prose })),
  parameters: Type.Optional(raw(readBy, 'JSON schema of the arguments.')),
  timeout: Type.Optional(duration(readBy, 'Longest time for the whole workflow; 30m when left out.')),
  annotations: Type.Optional(toolAnnotations(readBy)),
  output: Type.Optional(output(readBy)),
  steps: list('The steps; they run as soon as those they depend on are done.', step(readBy), {
    type: { map: ['id'] },
    min: 1,
    max: limits.steps,
    rules,
  }),
})

export const workflow = (readBy: Reader) => object('The workflow.', parts(readBy, [knownSteps]))

export const workflows = (readBy: Reader) =>
  list('Workflows offered as tools.', object('A workflow.', parts(readBy, [])), { type: { map: ['name'] } })
