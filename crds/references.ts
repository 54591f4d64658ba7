/** Finds where a schema names other objects (`refersTo`) and which names an object holds there. */
import type { TSchema } from 'typebox'
import { at } from './settings/json.ts'
import { partsOf, type SchemaNode, schemaChildren } from './walk.ts'

/** A field in which an object names another object of the same namespace. */
export interface ReferenceDeclaration {
  /** The kinds that the name may refer to. Several only if the name is looked up in each (members of a group). */
  readonly kind: string | readonly string[]
  /** Returns the names in one spec, sorted, each once. Does not throw on a spec that the schema accepts. */
  readonly names: (spec: never) => readonly string[]
  /** Returns the JSON pointers (RFC 6901) of this name in the spec. */
  readonly places: (spec: never, name: string) => readonly string[]
}

/** Returns all references that a spec's schema marks, one declaration for each kind (or set of kinds). */
export function referencesOf(schema: TSchema): ReferenceDeclaration[] {
  const kinds = new Map<string, string | readonly string[]>()
  const gather = (node: SchemaNode): void => {
    if (node.refersTo !== undefined) kinds.set(String(node.refersTo), node.refersTo)
    for (const child of schemaChildren(node)) gather(child)
  }
  gather(schema as SchemaNode)
  return [...kinds].map(([key, kind]) => {
    const found = (spec: unknown) => foundIn(schema as SchemaNode, spec, key)
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

function foundIn(schema: SchemaNode, spec: unknown, kind: string): readonly FoundName[] {
  const found: FoundName[] = []
  const gather = (node: SchemaNode, value: unknown, pointer: string): void => {
    if (typeof value === 'string' && value !== '' && String(node.refersTo) === kind)
      found.push({ name: value, pointer })
    for (const part of partsOf(node, value)) if (part.schema) gather(part.schema, part.value, at(pointer, part.step))
  }
  gather(schema, spec, '')
  return found
}
