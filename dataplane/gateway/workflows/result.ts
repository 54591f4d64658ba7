import { isObject } from '../../../crds/settings/json.ts'
import type { Output, OutputProperty, Workflow } from '../../config/workflow/compiled.ts'
import { memberText, readDigits } from '../mcp/json.ts'
import { evaluate, parseOrUndefined, type Scope, toText } from './evaluate.ts'
import { type Finished, StepFailure } from './host.ts'

/** Members of a result (JSON text) that a composite tool passes on unchanged, if they begin with this character. */
const GIVEN_ON = { content: '[', structuredContent: '{' } as const

/** Returns a finished workflow's result: members in JSON text. Throws a StepFailure if `output` can't be built. */
export function buildResult(
  { output, steps }: Workflow,
  done: ReadonlyMap<string, Finished>,
  params: unknown,
): Readonly<Record<string, string>> {
  if (output !== undefined) {
    const scope = { params, steps: Object.fromEntries(done), forEach: undefined }
    return serializeMembers(buildOutput(output, scope))
  }
  const last = done.get(steps.at(-1)?.id ?? '')
  const text = last?.result
  if (text === undefined) return serializeMembers(isObject(last?.output) ? last.output : {})
  const given = Object.entries(GIVEN_ON).flatMap(([name, start]) => {
    const member = memberText(text, name)
    return member?.startsWith(start) ? [[name, member]] : []
  })
  return { content: '[]', ...Object.fromEntries(given) }
}

/** Returns a structured result, with its text for clients that read only that. */
function serializeMembers(value: object): Readonly<Record<string, string>> {
  const text = JSON.stringify(value)
  return { content: JSON.stringify([{ type: 'text', text }]), structuredContent: text }
}

function buildOutput({ properties, required }: Output, scope: Scope): object {
  const value = buildMembers(properties, scope)
  const missing = required.filter((name) => !Object.hasOwn(value, name))
  if (missing.length > 0) throw new StepFailure(`no value for ${missing.join(', ')}`)
  return value
}

const buildMembers = (properties: NonNullable<OutputProperty['properties']>, scope: Scope): object =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, property]) => {
      const value = buildProperty(property, scope)
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** Returns the value of a property, in its type; its default if the template gives none. */
function buildProperty({ type, value, properties, fallback }: OutputProperty, scope: Scope): unknown {
  if (properties !== undefined) return buildMembers(properties, scope)
  const given = value === undefined ? undefined : evaluate(value, scope)
  if (given === undefined || given === null || (given === '' && type !== 'string')) return fallback
  return convertTo(given, type) ?? fallback
}

/** Converts a value to a type; undefined if it has no such form. */
function convertTo(value: unknown, type: OutputProperty['type']): unknown {
  if (type === 'string') return toText(value)
  const read = typeof value === 'string' ? parseOrUndefined(value) : value
  return isTyped[type](read) ? read : undefined
}

const isLarge = (value: unknown): boolean => readDigits(value) !== undefined

const isTyped: Readonly<Record<Exclude<OutputProperty['type'], 'string'>, (value: unknown) => boolean>> = {
  integer: (value) => Number.isInteger(value) || isLarge(value),
  number: (value) => typeof value === 'number' || isLarge(value),
  boolean: (value) => typeof value === 'boolean',
  array: (value) => Array.isArray(value),
  object: (value) => isObject(value) && !isLarge(value),
}
