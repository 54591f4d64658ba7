import { at, isObject } from '../../../crds/settings/json.ts'
import { stepsRead } from './check-paths.ts'
import type { Output, OutputProperty } from './compiled.ts'
import type { Definition } from './definition.ts'
import { findViolation, type JsonSchema } from './json-schema.ts'
import { workflowLimits } from './limits.ts'
import type { Reading, Use } from './values.ts'

const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'number', 'boolean', 'object', 'array'])
const FIELDS: ReadonlySet<string> = new Set(['type', 'description', 'value', 'default', 'properties'])

export function compileOutput(output: NonNullable<Definition['output']>, reading: Reading, uses: Use[]): Output {
  const { properties, required = [] } = output
  for (const [index, name] of required.entries())
    if (!Object.hasOwn(properties, name))
      reading.find(`/output/required/${index}`, 'names a property that does not exist')
  const place = { reading, uses, pointer: '/output/properties' }
  const compiled = compileAll(properties, place, workflowLimits.schemaDepth)
  return { properties: compiled, required, reads: stepsRead(uses) }
}

interface Place {
  readonly reading: Reading
  readonly uses: Use[]
  readonly pointer: string
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
export function buildOutputSchema({ properties, required = [] }: NonNullable<Definition['output']>): JsonSchema {
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
