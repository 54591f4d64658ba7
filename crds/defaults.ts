import { type KindDeclaration, specMayBeLeftOut } from './define.ts'
import { at, copyJson, inKeyOrder, isObject, memoize } from './settings/json.ts'
import { childSchema, findValueSchema, listParts, type SchemaNode, schemaChildren } from './walk.ts'

/**
 * Applies defaults like the API server: to an absent or null property; a null without a default is dropped. Returns the
 * same value where nothing changes: parts without a schema may have very many keys.
 */
function withDefaults(node: SchemaNode, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = node
    if (items === undefined) return value
    const filled = value.map((item) => withDefaults(items, item))
    return filled.some((item, index) => item !== value[index]) ? filled : value
  }
  return isObject(value) && hasChildren(node) ? fieldsWithDefaults(node, value) : value
}

function fieldsWithDefaults(node: SchemaNode, value: Record<string, unknown>): Record<string, unknown> {
  const filled: Entry[] = []
  let isSame = true
  for (const key of Object.keys(value)) {
    const given = value[key]
    const child = childSchema(node, key)
    const inner = child === undefined ? given : withDefaults(child, given)
    const isDropped = child !== undefined && given === null
    if (!isDropped) filled.push([key, inner])
    isSame &&= !isDropped && inner === given
  }
  for (const [key, child] of listDefaults(node)) {
    if (Object.hasOwn(value, key) && value[key] !== null) continue
    filled.push([key, withDefaults(child, copyJson(child.default))])
    isSame = false
  }
  // No assignment here, because assigning a key such as __proto__ has a special meaning.
  return isSame ? value : Object.fromEntries(filled)
}

type Entry = [key: string, value: unknown]

const hasChildren = (node: SchemaNode): boolean =>
  node.properties !== undefined || node.items !== undefined || findValueSchema(node) !== undefined

/** Returns the fields of an object that have a default. */
const listDefaults = memoize((node: SchemaNode) =>
  Object.entries(node.properties ?? {}).filter(([, child]) => child.default !== undefined),
)

/** Copies an object of this kind and applies the defaults of its schema to `spec`. Does not throw. */
export function applyDefaults<O extends object>(declaration: KindDeclaration, object: O): O {
  const { spec } = object as { spec?: unknown }
  if ((spec === undefined || spec === null) && specMayBeLeftOut(declaration))
    return applyDefaults(declaration, { ...object, spec: {} })
  if (!Object.hasOwn(object, 'spec')) return { ...object }
  return { ...object, spec: withDefaults(declaration.spec as SchemaNode, spec) }
}

const hasDefaults = (node: SchemaNode): boolean => node.default !== undefined || schemaChildren(node).some(hasDefaults)

/** Tells whether a schema has defaults inside items of its lists. */
const hasItemDefaults = memoize((node: SchemaNode): boolean =>
  schemaChildren(node).some((child) => (child === node.items ? hasDefaults : hasItemDefaults)(child)),
)

/** Applies the defaults inside items of a value's lists. Returns the same value if its schema has no such defaults. */
function itemsWithDefaults(node: SchemaNode, value: unknown): unknown {
  if (!hasItemDefaults(node)) return value
  if (Array.isArray(value)) return withDefaults(node, value)
  if (!isObject(value)) return value
  const given = Object.entries(value)
  const filled = given.map(([key, inner]): Entry => {
    const child = childSchema(node, key)
    return [key, child ? itemsWithDefaults(child, inner) : inner]
  })
  return filled.every(([, inner], index) => inner === given[index]?.[1]) ? value : Object.fromEntries(filled)
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

export interface Unsupported {
  readonly pointer: string
  readonly reason: string
}

/** Returns why every part of this schema is refused, or undefined if somebody acts on a part. */
function findRefusal(node: SchemaNode): string | undefined {
  const { readBy } = node
  if (readBy !== undefined) return typeof readBy === 'object' ? readBy.refused : undefined
  const [first, ...others] = schemaChildren(node).map(findRefusal)
  return others.every((reason) => reason === first) ? first : undefined
}

/** Tells whether anything in a schema is refused. Most parts of most kinds are supported. */
const refusesAnything = memoize(
  (node: SchemaNode): boolean =>
    node.refusedValues !== undefined || typeof node.readBy === 'object' || schemaChildren(node).some(refusesAnything),
)

/** Tells whether anything in a value differs from its default. */
function isSet(node: SchemaNode, value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (isObject(value) && schemaChildren(node).length > 0) {
    if (node.readBy !== undefined) return true
    return Object.entries(value).some(([key, inner]) => isSet(childSchema(node, key) ?? {}, inner))
  }
  return node.default === undefined || JSON.stringify(value) !== JSON.stringify(node.default)
}

/** Returns why this value of a choice is refused, or undefined if it isn't or the node is no choice. */
const valueRefusal = (node: SchemaNode, value: unknown): string | undefined =>
  typeof value === 'string' ? node.refusedValues?.[value] : undefined

function gather(node: SchemaNode, value: unknown, pointer: string, found: Unsupported[]): void {
  if (!refusesAnything(node)) return
  const valueReason = valueRefusal(node, value)
  const reason = valueReason ?? findRefusal(node)
  if (reason !== undefined) {
    if (valueReason !== undefined || isSet(node, value)) found.push({ pointer, reason })
    return
  }
  for (const part of listParts(node, value)) gather(part.schema ?? {}, part.value, at(pointer, part.step), found)
}

/**
 * Returns every refused field of an object's spec that differs from its default, and every refused value of a choice. A
 * part that is refused as a whole is one finding.
 */
export function unsupportedFields(declaration: KindDeclaration, object: { readonly spec?: unknown }): Unsupported[] {
  const found: Unsupported[] = []
  const schema = declaration.spec as SchemaNode
  if (!refusesAnything(schema)) return found
  const { spec } = applyDefaults(declaration, object)
  if (!isObject(spec)) return found
  for (const [field, value] of Object.entries(spec))
    gather(childSchema(schema, field) ?? {}, value, at('/spec', field), found)
  return found
}
