/** Finds the fields that an object sets, and other values for them, for tests that change one field after another. */
import { at, isObject } from '../../../crds/settings/json.ts'
import { childSchema, type SchemaNode } from '../../../crds/walk.ts'
import type { ClusterView, KubernetesObject } from '../../../operator/model/index.ts'
import { reconcile } from '../../../operator/reconcile/index.ts'
import { canonicalJson } from '../../../operator/render/object/canonical.ts'
import { context, formatName } from './plans.ts'

/** A leaf that is set: its pointer, its schema, and its key in its parent. */
export interface Leaf {
  readonly pointer: string
  /** Property names, with `*` for list items and map keys, so that a field has one path in all of them. */
  readonly field: string
  readonly schema: SchemaNode
  readonly value: unknown
}

export function* walkLeaves(schema: SchemaNode, value: unknown, pointer: string, field: string): Generator<Leaf> {
  const isRaw = schema['x-kubernetes-preserve-unknown-fields'] === true
  if (!isRaw && Array.isArray(value)) {
    for (const [index, item] of value.entries())
      yield* walkLeaves(schema.items ?? {}, item, at(pointer, index), `${field}/*`)
  } else if (!isRaw && isObject(value) && Object.keys(value).length > 0) {
    for (const [key, inner] of Object.entries(value)) {
      const isNamed = Object.hasOwn(schema.properties ?? {}, key)
      yield* walkLeaves(childSchema(schema, key) ?? {}, inner, at(pointer, key), `${field}/${isNamed ? key : '*'}`)
    }
  } else yield { pointer, field, schema, value }
}

/** Returns every leaf of a schema that the code reads. */
export function* walkFields(schema: SchemaNode, field: string): Generator<string> {
  const isRaw = schema['x-kubernetes-preserve-unknown-fields'] === true
  const { properties = {}, items, additionalProperties } = schema
  const isLeaf = isRaw || (Object.keys(properties).length === 0 && !items && typeof additionalProperties !== 'object')
  if (isLeaf) {
    if (typeof schema.readBy !== 'object') yield field
    return
  }
  for (const [name, child] of Object.entries(properties)) yield* walkFields(child, `${field}/${name}`)
  if (items) yield* walkFields(items, `${field}/*`)
  if (typeof additionalProperties === 'object') yield* walkFields(additionalProperties, `${field}/*`)
}

/** Returns another valid value for the field that is served; undefined if there is none. */
export function another({ schema, value }: Leaf): unknown {
  if (schema.enum) {
    const { enum: values, refusedValues = {} } = schema
    return values.find((other) => other !== value && !Object.hasOwn(refusedValues, other))
  }
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 1
  // Its presence alone matters: tests of refused objects cover what it changes.
  if (isObject(value) && Object.keys(value).length === 0) return undefined
  if (isObject(value)) return { spec: { nodeSelector: { other: 'x' } } }
  const text = String(value)
  if (/^\d+s$/.test(text)) return '11s'
  if (/^\d+m$/.test(text)) return '2m'
  if (/^\d+h$/.test(text)) return '3h'
  if (/^\d+(Gi)?$/.test(text)) return text.replace(/\d+/, '7')
  // A commit.
  if (/^a{40}$/.test(text)) return 'b'.repeat(40)
  if (text.includes('a.json')) return text.replace('a.json', 'b.json')
  return `${text}z`
}

const parsePointer = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))

/** Returns the value at a pointer; undefined if there is none. */
export const valueAt = (object: unknown, pointer: string): unknown =>
  parsePointer(pointer).reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], object)

type Container = Record<string, unknown>

/** Returns a copy with one place edited. Only the objects on the path are copied, because a deep copy takes longer. */
function editAt(value: unknown, steps: readonly string[], edit: (parent: Container, last: string) => void): unknown {
  const copy = (Array.isArray(value) ? [...value] : { ...(value as Container) }) as Container
  const [first = '', ...rest] = steps
  if (rest.length === 0) edit(copy, first)
  else copy[first] = editAt(copy[first], rest, edit)
  return copy
}

/** Returns a copy of an object with another value at the pointer. */
export const set = (object: unknown, pointer: string, value: unknown): unknown =>
  editAt(object, parsePointer(pointer), (parent, last) => {
    parent[last] = value
  })

/** Returns a copy of an object without the value at the pointer. */
export const remove = (object: unknown, pointer: string): unknown =>
  editAt(object, parsePointer(pointer), (parent, last) => {
    if (Array.isArray(parent)) parent.splice(Number(last), 1)
    else delete parent[last]
  })

/** Returns a view that records the names of the objects that are read from it. */
function notingView(view: ClusterView, read: Set<string>): ClusterView {
  return {
    get(kind, namespace, name) {
      read.add(`${kind.kind} ${namespace} ${name}`)
      return view.get(kind, namespace, name)
    },
    list(kind, namespace) {
      const found = view.list(kind, namespace)
      for (const one of found) read.add(formatName(one as unknown as KubernetesObject))
      return found
    },
    referrers(kind, namespace, name) {
      const found = view.referrers(kind, namespace, name)
      for (const one of found) read.add(`${one.kind} ${namespace} ${one.name}`)
      return found
    },
    secret: (...args) => view.secret(...args),
    configMap: (...args) => view.configMap(...args),
    observe: (...args) => view.observe(...args),
    sources: (...args) => view.sources(...args),
  }
}

/** Maps the name of an object to the objects whose plans depend on it: only these can change with it. */
export function readersAmong(
  objects: readonly KubernetesObject[],
  view: ClusterView,
): ReadonlyMap<string, readonly KubernetesObject[]> {
  const readers = new Map<string, KubernetesObject[]>(objects.map((object) => [formatName(object), []]))
  for (const object of objects) {
    const read = new Set<string>()
    reconcile(object, notingView(view, read), context)
    for (const name of read) if (name !== formatName(object)) readers.get(name)?.push(object)
  }
  return readers
}

/** Returns the plan of an object, without the hash of its own spec. */
export function planToText(object: KubernetesObject, view: ClusterView): string {
  const plan = reconcile(object, view, context)
  return canonicalJson({
    ...plan,
    status: { ...plan.status, ...(plan.children.length === 0 ? { configHash: '' } : {}) },
  })
}
