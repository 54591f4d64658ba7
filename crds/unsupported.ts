import { applyDefaults } from './defaults.ts'
import type { KindDeclaration } from './define.ts'
import { at, isObject } from './settings/json.ts'
import { childSchema, partsOf, type SchemaNode, schemaChildren } from './walk.ts'

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

/** A cache by schema node: whether anything in the schema is refused. Most parts of most kinds are supported. */
const refusing = new WeakMap<SchemaNode, boolean>()

function refusesAnything(node: SchemaNode): boolean {
  const known = refusing.get(node)
  if (known !== undefined) return known
  const { readBy, refusedValues } = node
  const refuses =
    refusedValues !== undefined ||
    (typeof readBy === 'object' && readBy.refused !== undefined) ||
    schemaChildren(node).some(refusesAnything)
  refusing.set(node, refuses)
  return refuses
}

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
  for (const part of partsOf(node, value)) gather(part.schema ?? {}, part.value, at(pointer, part.step), found)
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
