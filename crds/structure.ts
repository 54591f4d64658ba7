/** Checks the structure of values by a schema: ajv with the list types of Kubernetes, and messages for people. */
import { Ajv, type ErrorObject, type SchemaObject, type SchemaValidateFunction } from 'ajv'
import { closest } from './settings/closest.ts'
import { at, isObject, type ValueFinding } from './settings/json.ts'
import { OWN_KEYWORDS } from './settings/schema.ts'
import type { SchemaNode } from './walk.ts'

export interface Finding extends ValueFinding {
  readonly isMistyped?: true
}

const ANNOTATIONS = [
  ...OWN_KEYWORDS,
  'x-kubernetes-validations',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-int-or-string',
]

const int32 = (value: number) => value >= -(2 ** 31) && value < 2 ** 31

/** RFC 3339, section 5.6. */
const dateTime = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$/

function repeats(kind: string, keys: readonly string[], items: readonly unknown[]): number[] {
  const identity = (item: unknown) =>
    JSON.stringify(kind === 'set' ? item : keys.map((key) => (isObject(item) ? item[key] : undefined)))
  const seen = new Set<string>()
  return items.flatMap((item, index) => {
    const name = identity(item)
    if (seen.has(name)) return [index]
    seen.add(name)
    return []
  })
}

/** ajv expects the errors of a custom keyword in a property of its function. */
const uniqueItems: SchemaValidateFunction = (kind: string, items: unknown[], parent) => {
  const keys = (parent as SchemaNode | undefined)?.['x-kubernetes-list-map-keys'] ?? []
  const twice = kind === 'atomic' ? [] : repeats(kind, keys, items)
  uniqueItems.errors = twice.map((index) => ({ keyword: 'x-kubernetes-list-type', params: { index, keys } }))
  return twice.length === 0
}

function createAjv(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    // ajv's passes over its own code took a third of the time of `portico validate`, and made no check faster.
    code: { optimize: false },
    verbose: true,
    strict: true,
    strictRequired: false,
    allowUnionTypes: true,
    inlineRefs: false,
    formats: {
      int32: { type: 'number', validate: int32 },
      int64: { type: 'number', validate: Number.isSafeInteger },
      'date-time': dateTime,
    },
  })
  ajv.addVocabulary(ANNOTATIONS)
  ajv.addKeyword({ keyword: 'x-kubernetes-list-type', type: 'array', validate: uniqueItems, errors: true })
  return ajv
}

const words: Record<string, string> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'empty',
}

const wordFor = (value: unknown): string => {
  if (value === null) return 'empty'
  if (Array.isArray(value)) return 'a list'
  return words[typeof value] ?? typeof value
}

/** The most unknown fields of one value whose messages say more. To find the nearest name takes long. */
const MOST_EXPLAINED = 100

function unknownField(field: string, known: readonly string[]): string {
  const meant = closest(field, known)
  if (meant !== undefined) return `unknown field; did you mean ${meant}?`
  return known.length <= 12 ? `unknown field; known here: ${[...known].sort().join(', ')}` : 'unknown field'
}

/** Builds the finding for one of ajv's errors. It never repeats a value, which may be a secret in the wrong place. */
function buildFinding(
  { instancePath, keyword, params, parentSchema, data }: ErrorObject,
  isExplained: boolean,
): Finding {
  const node = parentSchema as SchemaNode
  const here = (message: string): Finding => ({ pointer: instancePath, message })
  const inside = (key: unknown, message: string): Finding => ({ pointer: at(instancePath, String(key)), message })
  switch (keyword) {
    case 'additionalProperties': {
      const field = String(params['additionalProperty'])
      return inside(field, !isExplained ? 'unknown field' : unknownField(field, Object.keys(node.properties ?? {})))
    }
    case 'required':
      return inside(params['missingProperty'], 'is required')
    case 'type': {
      const wanted = [params['type']].flat().map((type) => words[type] ?? type)
      return { ...here(`must be ${wanted.join(' or ')}, not ${wordFor(data)}`), isMistyped: true }
    }
    case 'enum':
      return here(`must be one of ${(node.enum ?? []).map((value) => value || '""').join(', ')}`)
    case 'minLength':
      return here(params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} characters`)
    case 'maxLength':
      return here(`must have at most ${params['limit']} characters`)
    case 'pattern':
      return here(`must match ${params['pattern']}`)
    case 'minimum':
      return here(`must be at least ${params['limit']}`)
    case 'maximum':
      return here(`must be at most ${params['limit']}`)
    case 'minItems':
      return here(params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} items`)
    case 'maxItems':
      return here(`must have at most ${params['limit']} items`)
    case 'minProperties':
      return here(params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} keys`)
    case 'maxProperties':
      return here(`must have at most ${params['limit']} keys`)
    case 'format':
      return here(`must be a valid ${params['format']}`)
    case 'x-kubernetes-list-type': {
      const keys = params['keys'] as readonly string[]
      const what = keys.length === 0 ? 'the value' : keys.join(' and ')
      return inside(params['index'], `${what} must be unique in the list`)
    }
    default:
      return here(`breaks the rule ${keyword}`)
  }
}

/** Translates for ajv: `x-kubernetes-int-or-string` becomes a union, and `propertyNames` is left to a rule. */
function ajvSchema(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(ajvSchema)
  if (!isObject(node)) return node
  if (node['x-kubernetes-int-or-string'] === true) return { type: ['integer', 'string'] }
  const { propertyNames: _, ...rest } = node
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, ajvSchema(value)]))
}

interface StructuralFinding extends Finding {
  /** An unknown field says nothing about the fields beside it. */
  readonly unknownField: boolean
}

/** Compiles a schema into a function that lists all problems of a value's structure. */
export function compileStructure(schema: SchemaNode): (value: unknown) => StructuralFinding[] {
  const validate = createAjv().compile(ajvSchema(schema) as SchemaObject)
  return (value) => {
    if (validate(value)) return []
    const errors = validate.errors ?? []
    const collectPlaces = (keyword: string) =>
      new Set(errors.filter((error) => error.keyword === keyword).map(({ instancePath }) => instancePath))
    const mistyped = collectPlaces('type')
    const empty = collectPlaces('minLength')
    return errors
      .filter(({ keyword, instancePath }) => keyword !== 'enum' || !mistyped.has(instancePath))
      .filter(({ keyword, instancePath }) => keyword !== 'pattern' || !empty.has(instancePath))
      .map((error, index) => ({
        ...buildFinding(error, index < MOST_EXPLAINED),
        unknownField: error.keyword === 'additionalProperties',
      }))
  }
}
