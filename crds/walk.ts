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

/** A name in a spec that refers to another object in the same namespace. */
export interface Reference {
  readonly kind: string
  readonly name: string
  /** The JSON pointer (RFC 6901) of the name in the spec. */
  readonly pointer: string
}

/** The parts of a schema that name other objects (`refersTo`), without all other parts. */
interface NameMap {
  /** The kinds that a text here may name. The field `kind` beside the text tells which of several it is. */
  readonly kinds: readonly string[]
  readonly properties: readonly (readonly [key: string, NameMap])[]
  readonly items: NameMap | undefined
  readonly values: NameMap | undefined
  /** The keys that `values` does not apply to. */
  readonly declared: ReadonlySet<string>
}

/** Returns the parts of a schema that name objects; undefined if there are none. */
function mapNames(node: SchemaNode): NameMap | undefined {
  const kinds = node.refersTo === undefined ? [] : [node.refersTo].flat()
  const children = Object.entries(node.properties ?? {})
  const properties = children.flatMap(([key, child]): [string, NameMap][] => {
    const names = mapNames(child)
    return names === undefined ? [] : [[key, names]]
  })
  const values = findValueSchema(node)
  const map = {
    kinds,
    properties,
    items: node.items && mapNames(node.items),
    values: values && mapNames(values),
    declared: new Set(children.map(([key]) => key)),
  }
  return kinds.length + properties.length > 0 || map.items || map.values ? map : undefined
}

const listKinds = ({ kinds, properties, items, values }: NameMap): readonly string[] => [
  ...kinds,
  ...[...properties.map(([, child]) => child), ...(values ? [values] : []), ...(items ? [items] : [])].flatMap(
    listKinds,
  ),
]

const CORE = new Set(['Secret', 'ConfigMap'])
const NAMELESS: NameMap = { kinds: [], properties: [], items: undefined, values: undefined, declared: new Set() }

/** The references that a schema declares. */
export interface References {
  /** Returns the kinds that a spec may name, in the order of the schema, Secrets and ConfigMaps last. */
  kinds(): readonly string[]
  /** Returns every name in a spec. Does not throw on a spec that the schema does not accept. */
  find(spec: unknown): readonly Reference[]
}

/** Returns the references that a spec's schema declares. The schema is read at the first use. */
export function referencesOf(schema: TSchema): References {
  let known: { readonly map: NameMap; readonly kinds: readonly string[] } | undefined
  const read = () => {
    const map = mapNames(schema as SchemaNode) ?? NAMELESS
    const kinds = [...new Set(listKinds(map))]
    return { map, kinds: [...kinds.filter((kind) => !CORE.has(kind)), ...kinds.filter((kind) => CORE.has(kind))] }
  }
  return {
    kinds: () => (known ??= read()).kinds,
    find(spec) {
      const found: Reference[] = []
      collectNames((known ??= read()).map, { value: spec, pointer: '', beside: undefined }, found)
      return found
    },
  }
}

interface Place {
  readonly value: unknown
  readonly pointer: string
  /** The field `kind` of the object that holds this value. */
  readonly beside?: unknown
}

/** Appends the names in a value to `into`. */
function collectNames(names: NameMap, place: Place, into: Reference[]): void {
  const { value, pointer } = place
  if (typeof value === 'string') collectName(names, place, into)
  else if (isObject(value)) collectMembers(names, value, pointer, into)
  else if (Array.isArray(value) && names.items !== undefined)
    for (const [index, item] of value.entries())
      collectNames(names.items, { value: item, pointer: at(pointer, index) }, into)
}

function collectName({ kinds }: NameMap, { value, pointer, beside }: Place, into: Reference[]): void {
  const kind = kinds.length === 1 ? kinds[0] : kinds.find((one) => one === beside)
  if (value !== '' && kind !== undefined) into.push({ kind, name: value as string, pointer })
}

function collectMembers(
  { properties, values, declared }: NameMap,
  value: Readonly<Record<string, unknown>>,
  pointer: string,
  into: Reference[],
): void {
  const visit = (part: NameMap, key: string) =>
    collectNames(part, { value: value[key], pointer: at(pointer, key), beside: value['kind'] }, into)
  for (const [key, part] of properties) if (Object.hasOwn(value, key)) visit(part, key)
  if (values !== undefined) for (const key of Object.keys(value)) if (!declared.has(key)) visit(values, key)
}
