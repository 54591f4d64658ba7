import { isObject } from './shared/json.ts'
import type { CelRule, Reader } from './shared/schema.ts'

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
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly readBy?: Reader
  readonly refusedValues?: Readonly<Record<string, string>>
  readonly refersTo?: string | readonly string[]
  readonly 'x-kubernetes-validations'?: readonly CelRule[]
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
  readonly 'x-kubernetes-int-or-string'?: boolean
}

/** The schema of a map's values, where the node is a map. */
export const valuesOf = (node: SchemaNode): SchemaNode | undefined =>
  typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined

/** The schemas one level below. */
export function schemaChildren(node: SchemaNode): SchemaNode[] {
  const values = valuesOf(node)
  return [...Object.values(node.properties ?? {}), ...(values ? [values] : []), ...(node.items ? [node.items] : [])]
}

/** The schema of one property or map value, if it has one. */
export const childSchema = (node: SchemaNode, key: string): SchemaNode | undefined =>
  (Object.hasOwn(node.properties ?? {}, key) ? node.properties?.[key] : undefined) ?? valuesOf(node)

/** One item of a list, or one property or map value of an object. */
interface ValuePart {
  /** Its index or its key. */
  readonly step: string | number
  readonly value: unknown
  /** Undefined where the schema says nothing of it. */
  readonly schema: SchemaNode | undefined
}

/** The parts of a value one level below, each with its schema; none of a scalar. */
export function partsOf(node: SchemaNode, value: unknown): readonly ValuePart[] {
  if (Array.isArray(value)) return value.map((item, step) => ({ step, value: item, schema: node.items }))
  if (!isObject(value)) return []
  return Object.entries(value).map(([step, inner]) => ({ step, value: inner, schema: childSchema(node, step) }))
}
