import { Ajv, type ErrorObject } from 'ajv'
import type { TSchema } from 'typebox'
import { at, type ValueFinding } from '../../crds/settings/json.ts'

export interface Violation extends ValueFinding {
  readonly isUnknownField?: true
  /** The schema of the value that is missing, of the wrong type, or none of the enum's values. */
  readonly wanted?: TSchema
  /** The value is of the right type. */
  readonly isTyped?: true
}

export const RULES = {
  // ajv's passes over its own code took a quarter of a registry's start and 33 MiB, and made no check faster.
  code: { optimize: false },
  useDefaults: true,
  // The schema parts that the CRDs share carry keywords and formats of Kubernetes.
  strict: false,
  // A union with a discriminating field yields one message instead of one from each member.
  discriminator: true,
  formats: { int32: true, int64: true, uri: (text: string) => URL.canParse(text) },
} as const

/** Compiles a schema into a function that tells whether a value is valid, and fills in the schema's defaults. */
export const acceptor = (schema: TSchema): ((value: unknown) => boolean) => new Ajv(RULES).compile(schema)

/**
 * Compiles a schema into a function that lists violations and fills in defaults. Without `all` it stops at the first.
 * Messages never hold the value, which may be a secret. Our keyword `says` is the message of a pattern.
 */
export function compile(
  schema: TSchema,
  { all = true }: { readonly all?: boolean } = {},
): (value: unknown) => readonly Violation[] {
  // `parentSchema` needs `verbose`.
  const ajv = new Ajv({ ...RULES, allErrors: all, verbose: true })
  const validate = ajv.compile(schema)
  return function violations(value) {
    return validate(value) ? [] : (validate.errors ?? []).map(violation)
  }
}

function violation({ instancePath, keyword, params, message, parentSchema }: ErrorObject): Violation {
  const within = (property: unknown) => at(instancePath, String(property))
  switch (keyword) {
    case 'additionalProperties':
      return {
        pointer: within(params['additionalProperty']),
        message: 'unknown field',
        isUnknownField: true,
      }
    case 'required':
      return {
        pointer: within(params['missingProperty']),
        message: 'is required',
        wanted: parentSchema?.['properties']?.[params['missingProperty']],
      }
    case 'enum':
      return {
        pointer: instancePath,
        message: `must be one of ${(params['allowedValues'] as unknown[]).map((value) => JSON.stringify(value)).join(', ')}`,
        wanted: parentSchema as TSchema,
        isTyped: true,
      }
    case 'type':
      return {
        pointer: instancePath,
        message: `must be of type ${[params['type']].flat().join(' or ')}`,
        wanted: parentSchema as TSchema,
      }
    case 'minLength':
      return {
        pointer: instancePath,
        message: params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} characters`,
      }
    case 'pattern':
      return { pointer: instancePath, message: parentSchema?.['says'] ?? message ?? 'has the wrong form' }
    default:
      return { pointer: instancePath, message: message ?? `breaks the rule ${keyword}` }
  }
}
