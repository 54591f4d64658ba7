import type { TSchema } from 'typebox'
import { at, isObject } from './settings/json.ts'
import type { SchemaNode } from './settings/schema.ts'

export type { SchemaNode }

export const findValueSchema = (node: SchemaNode): SchemaNode | undefined =>
  typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined

export function schemaChildren(node: SchemaNode): SchemaNode[] {
  const values = findValueSchema(node)
  return [...Object.values(node.properties ?? {}), ...(values ? [values] : []), ...(node.items ? [node.items] : [])]
}

export const childSchema = (node: SchemaNode, key: string): SchemaNode | undefined =>
  (Object.hasOwn(node.properties ?? {}, key) ? node.properties?.[key] : undefined) ?? findValueSchema(node)

interface ValuePart {
  readonly step: string | number
  readonly value: unknown
  readonly schema: SchemaNode | undefined
}

/** Returns the parts of a value one level below, each with its schema. A scalar has none. */
export function listParts(node: SchemaNode, value: unknown): readonly ValuePart[] {
  if (Array.isArray(value)) return value.map((item, step) => ({ step, value: item, schema: node.items }))
  if (!isObject(value)) return []
  return Object.entries(value).map(([step, inner]) => ({ step, value: inner, schema: childSchema(node, step) }))
}

// Finds where a schema names other objects (`refersTo`) and which names an object holds there.

export interface ReferenceDeclaration {
  readonly kind: string
  /** Returns the names in one spec, sorted, each once. Does not throw on a spec that the schema accepts. */
  readonly names: (spec: never) => readonly string[]
  /** Returns the JSON pointers (RFC 6901) of this name in the spec. */
  readonly places: (spec: never, name: string) => readonly string[]
}

const kindsNamedBy = ({ refersTo }: SchemaNode): readonly string[] => (refersTo === undefined ? [] : [refersTo].flat())

/** A cache by schema node: whether it or a node below it names objects. */
const naming = new WeakMap<SchemaNode, boolean>()

function namesAnything(node: SchemaNode): boolean {
  const known = naming.get(node)
  if (known !== undefined) return known
  const names = node.refersTo !== undefined || schemaChildren(node).some(namesAnything)
  naming.set(node, names)
  return names
}

/** Returns all references that a spec's schema marks, one declaration for each kind. */
export function findReferences(schema: TSchema): ReferenceDeclaration[] {
  const kinds = new Set<string>()
  const gather = (node: SchemaNode): void => {
    for (const kind of kindsNamedBy(node)) kinds.add(kind)
    for (const child of schemaChildren(node)) gather(child)
  }
  gather(schema as SchemaNode)
  return [...kinds].map((kind) => {
    const found = (spec: unknown) => foundIn(schema as SchemaNode, spec, kind)
    return {
      kind,
      names: (spec: unknown) => [...new Set(found(spec).map(({ name }) => name))].sort(),
      places: (spec: unknown, name: string) => found(spec).flatMap((one) => (one.name === name ? [one.pointer] : [])),
    }
  })
}

interface FoundName {
  readonly name: string
  readonly pointer: string
}

/** Finds the names of objects of a kind. The field `kind` beside a name tells which of several it is. */
function foundIn(schema: SchemaNode, spec: unknown, kind: string): readonly FoundName[] {
  const found: FoundName[] = []
  const gather = (node: SchemaNode, value: unknown, pointer: string, beside?: unknown): void => {
    if (!namesAnything(node)) return
    const kinds = kindsNamedBy(node)
    if (typeof value === 'string' && value !== '' && kinds.includes(kind) && (kinds.length === 1 || beside === kind))
      found.push({ name: value, pointer })
    const own = isObject(value) ? value['kind'] : undefined
    for (const part of listParts(node, value))
      if (part.schema) gather(part.schema, part.value, at(pointer, part.step), own)
  }
  gather(schema, spec, '')
  return found
}
