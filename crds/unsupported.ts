import { applyDefaults } from './defaults.ts'
import type { KindDeclaration } from './define.ts'
import { at, isObject } from './shared/json.ts'
import { childSchema, partsOf, type SchemaNode, schemaChildren } from './walk.ts'

/** A field that is set and has no effect. */
export interface Unsupported {
  /** JSON pointer into the object. */
  readonly pointer: string
  /** `later` where it will be supported, else why it never will. */
  readonly reason: string
}

/** Why nobody acts on any part of this schema: `later`, or the reason of a refusal; undefined where somebody does. */
function unread(node: SchemaNode): string | undefined {
  const { readBy } = node
  if (readBy !== undefined)
    return typeof readBy === 'object' ? readBy.refused : readBy === 'later' ? 'later' : undefined
  const [first, ...others] = schemaChildren(node).map(unread)
  return others.every((reason) => reason === first) ? first : undefined
}

/** Whether anything in a value differs from its default. */
function isSet(node: SchemaNode, value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (isObject(value) && schemaChildren(node).length > 0) {
    if (node.readBy !== undefined) return true
    return Object.entries(value).some(([key, inner]) => isSet(childSchema(node, key) ?? {}, inner))
  }
  return node.default === undefined || JSON.stringify(value) !== JSON.stringify(node.default)
}

/** Why nobody can serve this value of a choice; undefined where somebody can, and for what is no choice. */
function unservedValue(node: SchemaNode, value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  return node.refusedValues?.[value] ?? (node.laterValues?.includes(value) ? 'later' : undefined)
}

function gather(node: SchemaNode, value: unknown, pointer: string, found: Unsupported[]): void {
  const valueReason = unservedValue(node, value)
  const reason = valueReason ?? unread(node)
  if (reason !== undefined) {
    if (valueReason !== undefined || isSet(node, value)) found.push({ pointer, reason })
    return
  }
  for (const part of partsOf(node, value)) gather(part.schema ?? {}, part.value, at(pointer, part.step), found)
}

/**
 * Everything in an object's spec that nobody acts on, yet or ever, and that is set to something other than its default;
 * and every value of a choice that nobody can serve, even if it is the default. A part that is unsupported as a whole
 * is one finding.
 */
export function unsupportedFields(declaration: KindDeclaration, object: { readonly spec?: unknown }): Unsupported[] {
  const found: Unsupported[] = []
  const { spec } = applyDefaults(declaration, object)
  const schema = declaration.spec as SchemaNode
  if (!isObject(spec)) return found
  for (const [field, value] of Object.entries(spec))
    gather(childSchema(schema, field) ?? {}, value, at('/spec', field), found)
  return found
}
