import { isObject } from './settings/json.ts'
import type { SchemaNode } from './settings/schema.ts'

export type { SchemaNode }

export const valuesOf = (node: SchemaNode): SchemaNode | undefined =>
  typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined

export function schemaChildren(node: SchemaNode): SchemaNode[] {
  const values = valuesOf(node)
  return [...Object.values(node.properties ?? {}), ...(values ? [values] : []), ...(node.items ? [node.items] : [])]
}

export const childSchema = (node: SchemaNode, key: string): SchemaNode | undefined =>
  (Object.hasOwn(node.properties ?? {}, key) ? node.properties?.[key] : undefined) ?? valuesOf(node)

interface ValuePart {
  readonly step: string | number
  readonly value: unknown
  readonly schema: SchemaNode | undefined
}

/** Returns the parts of a value one level below, each with its schema. A scalar has none. */
export function partsOf(node: SchemaNode, value: unknown): readonly ValuePart[] {
  if (Array.isArray(value)) return value.map((item, step) => ({ step, value: item, schema: node.items }))
  if (!isObject(value)) return []
  return Object.entries(value).map(([step, inner]) => ({ step, value: inner, schema: childSchema(node, step) }))
}
