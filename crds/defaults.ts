import type { KindDeclaration } from './define.ts'
import { specMayBeLeftOut } from './root.ts'
import { inKeyOrder, isObject } from './settings/json.ts'
import { childSchema, type SchemaNode, schemaChildren } from './walk.ts'

/** Applies defaults like the API server: to an absent or null property; a null without a default is dropped. */
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
  // No assignment here, because assigning a key such as __proto__ has a special meaning.
  return Object.fromEntries(entries)
}

/** Copies an object of this kind and applies the defaults of its schema to `spec`. Does not throw. */
export function applyDefaults<O extends object>(declaration: KindDeclaration, object: O): O {
  const { spec } = object as { spec?: unknown }
  if ((spec === undefined || spec === null) && specMayBeLeftOut(declaration))
    return applyDefaults(declaration, { ...object, spec: {} })
  if (!Object.hasOwn(object, 'spec')) return { ...object }
  return { ...object, spec: withDefaults(declaration.spec as SchemaNode, spec) }
}

const withItemDefaults = new WeakMap<SchemaNode, boolean>()

/** Tells whether a schema has defaults. With `isInItem` false, only defaults inside items of its lists count. */
function hasItemDefaults(node: SchemaNode, isInItem: boolean): boolean {
  if (isInItem) return node.default !== undefined || schemaChildren(node).some((child) => hasItemDefaults(child, true))
  const known = withItemDefaults.get(node)
  if (known !== undefined) return known
  const found = schemaChildren(node).some((child) => hasItemDefaults(child, child === node.items))
  withItemDefaults.set(node, found)
  return found
}

/** Applies the defaults inside items of a value's lists. Returns the same value if its schema has no such defaults. */
function itemsWithDefaults(node: SchemaNode, value: unknown): unknown {
  if (!hasItemDefaults(node, false)) return value
  if (Array.isArray(value)) return withDefaults(node, value)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const child = childSchema(node, key)
      return [key, child ? itemsWithDefaults(child, inner) : inner]
    }),
  )
}

const complete = new WeakSet<object>()

/**
 * Returns an object in the form that plans are made from: with the defaults inside list items, which the API server
 * does not fill in, and the keys of its spec sorted. Returns the same object if nothing changes.
 */
export function completed<O extends object>(declaration: KindDeclaration, object: O): O {
  if (complete.has(object)) return object
  const { spec } = object as { spec?: unknown }
  const filled = inKeyOrder(itemsWithDefaults(declaration.spec as SchemaNode, spec))
  const found = filled === spec ? object : { ...object, spec: filled }
  complete.add(found)
  return found
}
