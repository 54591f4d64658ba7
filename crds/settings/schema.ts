/**
 * Builders for schema parts. A schema is at once the TypeScript type, the ajv schema and, without our own keywords
 * (`crds/structural.ts`), a structural OpenAPI schema. `readBy` names the part of Portico that acts on a field.
 * `refused` marks a field that is accepted, so that manifests of the widely used operator apply, but never honoured,
 * with the reason; `refusedValues` marks single values.
 */
import Type, { type Static, type TObject, type TSchema, type TUnsafe } from 'typebox'
import { limits } from './limits.ts'

export type Reader = 'gateway' | 'proxy' | 'registry' | 'operator' | { readonly refused: string }

/** A CEL rule as in `x-kubernetes-validations`. The same text runs in the API server and in `portico validate`. */
export interface CelRule {
  readonly rule: string
  readonly message: string
  readonly reason?: 'FieldValueInvalid' | 'FieldValueRequired' | 'FieldValueForbidden'
  readonly fieldPath?: string
}

interface TextOptions {
  readonly max?: number
  readonly min?: number
  /** A pattern in the common subset of RE2 and JavaScript regular expressions. */
  readonly pattern?: string
  readonly default?: string
  readonly rules?: readonly CelRule[]
  /** The text is the name of an object of this kind (or of one of these kinds) in the same namespace. */
  readonly refersTo?: string | readonly string[]
}

const withRules = (rules: readonly CelRule[] | undefined) =>
  rules?.length ? { 'x-kubernetes-validations': rules } : {}

export const text = (readBy: Reader, description: string, options: TextOptions = {}) =>
  Type.String({
    description,
    readBy,
    maxLength: options.max ?? limits.text,
    ...(options.min === undefined ? {} : { minLength: options.min }),
    ...(options.pattern === undefined ? {} : { pattern: options.pattern }),
    ...(options.default === undefined ? {} : { default: options.default }),
    ...(options.refersTo === undefined ? {} : { refersTo: options.refersTo }),
    ...withRules(options.rules),
  })

export const url = (readBy: Reader, description: string, options: TextOptions = {}) =>
  text(readBy, description, { max: limits.url, pattern: '^https?://[^\\s]+$', ...options })

export const objectName = (readBy: Reader, description: string, options: TextOptions = {}) =>
  text(readBy, description, { min: 1, max: limits.name, ...options })

/** A lower-case DNS label of at most 63 characters. */
export const label = (readBy: Reader, description: string, options: TextOptions = {}) =>
  text(readBy, description, { min: 1, max: limits.label, pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$', ...options })

/** A scope (RFC 6749, section 3.3): printable ASCII without spaces, quotes and backslashes. */
export const scope = (readBy: Reader, max: number = limits.name) =>
  text(readBy, 'A scope.', { min: 1, max, pattern: '^[!#-\\[\\]-~]+$' })

/** The id of a client (RFC 6749, appendix A.1), without spaces. */
export const clientId = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: 256, pattern: '^[!-~]+$' })

export const choice = <const V extends readonly string[]>(
  readBy: Reader,
  description: string,
  values: V,
  options: {
    readonly default?: V[number]
    /** Values that are always refused, with the reason that the condition shows. */
    readonly refusedValues?: { readonly [value in V[number]]?: string }
  } = {},
) => Type.Enum([...values], { type: 'string', description, readBy, ...options }) as unknown as TUnsafe<V[number]>

export const flag = (readBy: Reader, description: string, options: { readonly default?: boolean } = {}) =>
  Type.Boolean({ description, readBy, ...options })

export const integer = (
  readBy: Reader,
  description: string,
  options: { readonly minimum?: number; readonly maximum?: number; readonly default?: number } = {},
) => Type.Integer({ description, readBy, format: 'int32', ...options })

export const bytes = (readBy: Reader, description: string, options: { readonly minimum: number }) =>
  Type.Integer({ description, readBy, format: 'int64', ...options })

/** A count or a percentage, as Kubernetes writes it: `2`, `50%`. */
export const countOrPercentage = (readBy: Reader, description: string) =>
  Type.Unsafe<number | string>({
    description,
    readBy,
    minimum: 0,
    pattern: '^(100|[1-9]?[0-9])%$',
    'x-kubernetes-int-or-string': true,
    anyOf: [{ type: 'integer' }, { type: 'string' }],
  })

/** A decimal number written as text, because Kubernetes advises against floats. */
export const decimal = (readBy: Reader, description: string, options: { readonly default?: string } = {}) =>
  text(readBy, description, { max: 32, pattern: '^[0-9]+(\\.[0-9]+)?$', ...options })

/** A Go duration such as `30s` or `1h30m`; `duration.ts` parses it. */
export const duration = (readBy: Reader, description: string, options: TextOptions = {}) =>
  text(readBy, description, { max: 32, pattern: '^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$', ...options })

interface ListOptions {
  readonly max?: number
  readonly min?: number
  /** `atomic` (default), `set`, or the keys of a list-type map. */
  readonly type?: 'atomic' | 'set' | { readonly map: readonly string[] }
  readonly rules?: readonly CelRule[]
  readonly default?: readonly unknown[]
}

export const list = <T extends TSchema>(description: string, items: T, options: ListOptions = {}) => {
  const kind = options.type ?? 'atomic'
  return Type.Array(items, {
    description,
    maxItems: options.max ?? limits.list,
    ...(options.min === undefined ? {} : { minItems: options.min }),
    ...(options.default === undefined ? {} : { default: options.default }),
    ...(typeof kind === 'string'
      ? { 'x-kubernetes-list-type': kind }
      : { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [...kind.map] }),
    ...withRules(options.rules),
  })
}

interface MapOptions {
  readonly max?: number
  readonly min?: number
  readonly rules?: readonly CelRule[]
  /** The longest key in characters. If set, a key has at least one character. */
  readonly longestKey?: number
}

/** A map from string to `value`, bounded by `limits.map` unless `max` is set. */
export const map = <V extends TSchema>(
  description: string,
  value: V,
  { max = limits.map, min, rules = [], longestKey }: MapOptions = {},
): TUnsafe<Record<string, Static<V>>> =>
  Type.Unsafe<Record<string, Static<V>>>({
    type: 'object',
    description,
    additionalProperties: value,
    maxProperties: max,
    ...(min === undefined ? {} : { minProperties: min }),
    ...(longestKey === undefined ? {} : { propertyNames: { minLength: 1, maxLength: longestKey } }),
    ...withRules(longestKey === undefined ? rules : [...rules, keyLength(longestKey)]),
  })

const keyLength = (longest: number): CelRule => ({
  rule: `self.all(key, size(key) > 0 && size(key) <= ${longest})`,
  message: `every key must have 1 to ${longest} characters`,
})

interface ObjectOptions {
  readonly rules?: readonly CelRule[]
  readonly default?: unknown
  /** The reader of the object's presence, if that alone is a setting (`managed: {}`). */
  readonly readBy?: Reader
  /** Properties of which exactly one is present, for the published schema of an API. Elsewhere CEL rules say so. */
  readonly exactlyOne?: readonly string[]
}

export const object = <P extends Record<string, TSchema>>(
  description: string,
  properties: P,
  options: ObjectOptions = {},
): TObject<P> =>
  Type.Object(properties, {
    description,
    additionalProperties: false,
    ...(options.readBy === undefined ? {} : { readBy: options.readBy }),
    ...(options.default === undefined ? {} : { default: options.default }),
    ...(options.exactlyOne === undefined ? {} : { exactlyOne: options.exactlyOne }),
    ...withRules(options.rules),
  })

/** An object of any shape that is passed on unchanged: a pod template, a JSON schema. */
export const raw = (readBy: Reader, description: string) =>
  Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    description,
    readBy,
    'x-kubernetes-preserve-unknown-fields': true,
  })

export const anything = (readBy: Reader, description: string) =>
  Type.Unsafe<unknown>({ description, readBy, 'x-kubernetes-preserve-unknown-fields': true })

/** A property with a default. Its type is that after `applyDefaults`: the property is present. */
export const defaulted = <T extends TSchema>(schema: T): T & Defaulted =>
  Type.Optional(schema) as unknown as T & Defaulted

export interface Defaulted {
  readonly '~defaulted': true
}

/**
 * The kind of object that holds the named value; it decides how the value becomes a file (`asFile`). The operator
 * itself reads what is mounted as `nothing`.
 */
export type Mounted = 'secret' | 'caBundle' | 'configMap' | 'nothing'

/**
 * The receiver of a file's content: `others` than the pod and its cluster, nobody (`trust`: it holds CA certificates),
 * or the cluster's API server alone (`ownToken`: it holds the pod's token).
 */
export type FileUse = 'others' | 'trust' | 'ownToken'

/** Keywords of our own. Neither the API server nor the schema of a configuration file gets them. */
export const OWN_KEYWORDS = [
  'readBy',
  'refusedValues',
  'refersTo',
  'mountedAs',
  'inFile',
  'namesFile',
  'exactlyOne',
] as const

/** A schema as data: the keywords that our builders write. */
export interface SchemaNode {
  readonly type?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | SchemaNode
  readonly items?: SchemaNode
  readonly enum?: readonly string[]
  readonly default?: unknown
  readonly pattern?: string
  readonly maxLength?: number
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly readBy?: Reader
  readonly refusedValues?: Readonly<Record<string, string>>
  readonly refersTo?: string | readonly string[]
  readonly mountedAs?: Mounted
  readonly inFile?: string
  readonly namesFile?: FileUse
  readonly exactlyOne?: readonly string[]
  readonly 'x-kubernetes-validations'?: readonly CelRule[]
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
  readonly 'x-kubernetes-int-or-string'?: boolean
}

export type { Static, TSchema }
export { Type }
