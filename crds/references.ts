/** Finds where a schema names other objects (`refersTo`) and which names an object holds there. */
import type { TSchema } from 'typebox'
import { childSchema, isObject, type SchemaNode, schemaChildren } from './walk.ts'

/** Where an object names another one of the same namespace. */
export interface ReferenceDeclaration {
  /** Kinds that may be meant. More than one only where the name is looked up in each (members of a group). */
  readonly kind: string | readonly string[]
  /** Names found in one object's spec, sorted, each once; does not throw on what the schema lets through. */
  readonly names: (spec: never) => readonly string[]
}

/** All references that a spec's schema marks, one declaration for each kind (or set of kinds). */
export function referencesOf(schema: TSchema): ReferenceDeclaration[] {
  const kinds = new Map<string, string | readonly string[]>()
  const gather = (node: SchemaNode): void => {
    if (node.refersTo !== undefined) kinds.set(String(node.refersTo), node.refersTo)
    for (const child of schemaChildren(node)) gather(child)
  }
  gather(schema as SchemaNode)
  return [...kinds].map(([key, kind]) => ({ kind, names: (spec: unknown) => namesIn(schema as SchemaNode, spec, key) }))
}

function namesIn(schema: SchemaNode, spec: unknown, kind: string): string[] {
  const names = new Set<string>()
  const gather = (node: SchemaNode, value: unknown): void => {
    if (typeof value === 'string') {
      if (value !== '' && String(node.refersTo) === kind) names.add(value)
    } else if (Array.isArray(value)) {
      if (node.items) for (const item of value) gather(node.items, item)
    } else if (isObject(value)) {
      for (const [key, inner] of Object.entries(value)) {
        const child = childSchema(node, key)
        if (child) gather(child, inner)
      }
    }
  }
  gather(schema, spec)
  return [...names].sort()
}
