import type { KindDeclaration } from './define.ts'
import { specMayBeLeftOut } from './root.ts'
import { inKeyOrder, isObject } from './settings/json.ts'
import { childSchema, type SchemaNode, schemaChildren } from './walk.ts'

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

const withItemDefaults = new WeakMap<SchemaNode, boolean>()

/** Whether a schema has defaults; with `isInItem` false, inside items of its lists alone. */
function hasItemDefaults(node: SchemaNode, isInItem: boolean): boolean {
  if (isInItem) return node.default !== undefined || schemaChildren(node).some((child) => hasItemDefaults(child, true))
  const known = withItemDefaults.get(node)
  if (known !== undefined) return known
  const found = schemaChildren(node).some((child) => hasItemDefaults(child, child === node.items))
  withItemDefaults.set(node, found)
  return found
}

/** A value with the defaults inside items of its lists; the same value where its schema has none there. */
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

/** Objects that are as `completed` gives them. */
const complete = new WeakSet<object>()

/**
 * An object as everything is planned of: as the API server stores it, with the defaults inside items of lists, which it does
 * not fill in, and with the keys of its spec in order, whatever the order in which somebody has written them. The same
 * object where nothing is to be done.
 */
export function completed<O extends object>(declaration: KindDeclaration, object: O): O {
  if (complete.has(object)) return object
  const { spec } = object as { spec?: unknown }
  const filled = inKeyOrder(itemsWithDefaults(declaration.spec as SchemaNode, spec))
  const found = filled === spec ? object : { ...object, spec: filled }
  complete.add(found)
  return found
}
