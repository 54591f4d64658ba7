import type { KindDeclaration } from './define.ts'
import { specMayBeLeftOut } from './root.ts'
import { isObject } from './shared/json.ts'
import { childSchema, type SchemaNode } from './walk.ts'

/**
 * Defaults as the API server applies them: an absent or null property with a default gets it, a null without one is
 * dropped, and defaults inside an object count only where the object is there.
 */
function withDefaults(node: SchemaNode, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = node
    return items ? value.map((item) => withDefaults(items, item)) : value
  }
  if (!isObject(value)) return value
  const entries: [string, unknown][] = []
  for (const [key, inner] of Object.entries(value)) {
    const child = childSchema(node, key)
    if (inner === null && child) continue
    entries.push([key, child ? withDefaults(child, inner) : inner])
  }
  const present = new Set(entries.map(([key]) => key))
  for (const [key, child] of Object.entries(node.properties ?? {})) {
    if (child.default !== undefined && !present.has(key)) {
      entries.push([key, withDefaults(child, structuredClone(child.default))])
    }
  }
  // Not by assignment, to which a key such as __proto__ means something else.
  return Object.fromEntries(entries)
}

/**
 * A copy of an object of this kind with the defaults of its schema in `spec`. Whatever the schema doesn't know stays as
 * it is. Does not throw, be the object valid or not.
 */
export function applyDefaults<O extends object>(declaration: KindDeclaration, object: O): O {
  const { spec } = object as { spec?: unknown }
  if ((spec === undefined || spec === null) && specMayBeLeftOut(declaration))
    return applyDefaults(declaration, { ...object, spec: {} })
  if (!Object.hasOwn(object, 'spec')) return { ...object }
  return { ...object, spec: withDefaults(declaration.spec as SchemaNode, spec) }
}
