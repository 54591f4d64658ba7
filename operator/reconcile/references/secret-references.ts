import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { isObject } from '../../../crds/settings/json.ts'
import { childSchema, type SchemaNode } from '../../../crds/walk.ts'
import type { KeyRef, Resolver } from './resolver.ts'

/** Yields every Secret key that a value names. The schema shows where: an object whose `name` refers to a Secret. */
function* secretKeys(node: SchemaNode, value: unknown): Generator<KeyRef> {
  if (Array.isArray(value)) {
    for (const item of value) if (node.items) yield* secretKeys(node.items, item)
  } else if (isObject(value)) {
    const { name, key } = value
    if (node.properties?.['name']?.refersTo === 'Secret' && typeof name === 'string' && typeof key === 'string')
      yield { name, key }
    for (const [field, inner] of Object.entries(value)) {
      const child = childSchema(node, field)
      if (child) yield* secretKeys(child, inner)
    }
  }
}

/** Records every Secret and key that an object names anywhere and that is missing. */
export function checkSecrets<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, resolver: Resolver): void {
  for (const ref of secretKeys(kind.spec as SchemaNode, object.spec)) resolver.secretKey(ref)
}
