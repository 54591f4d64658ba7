/** Compares which values a kind's schema and the configuration file accept at the same places. */
import { type KindName, kinds, validateObject } from '../../../crds/index.ts'
import { isInFiles, nameInFile } from '../../../crds/settings/file-form.ts'
import { at, isObject } from '../../../crds/settings/json.ts'
import { compileStructure } from '../../../crds/structure.ts'
import { childSchema, findValueSchema, type SchemaNode } from '../../../crds/walk.ts'
import { ConfigError, type Finding } from '../../../dataplane/config/load.ts'
import type { KubernetesObject } from '../../../operator/model/index.ts'
import { remove, set, valueAt } from './fields.ts'

/** A block of settings, with every field set. */
export interface Block {
  readonly object: KubernetesObject
  /** Pointer of the block in the object. */
  readonly from: string
  /** The schema of the block, if the place in the object has more fields than the block. */
  readonly schema?: SchemaNode
  /** The configuration that is rendered from the object, with the block. */
  readonly file: unknown
  /** Pointer of the block in the configuration. */
  readonly to: string
  /** Parsers of the configuration: one with only the schema, one with the rules across fields. */
  readonly parse: Parse
  readonly parseWithRules?: Parse
}

type Parse = (text: string) => unknown

/** A place of a block, in the object and in the configuration. */
interface PlaceOfBoth {
  readonly pointer: string
  readonly filePointer: string
  /** The place in any list or map: property names, with `*` for items and keys. */
  readonly field: string
  readonly node: SchemaNode
  readonly value: unknown
}

const LARGE = [2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 53 - 2, 2 ** 53]
const TEXTS = [
  ...[
    '',
    ' ',
    'a',
    'A',
    'a b',
    'a_b',
    '-a',
    'a-',
    'a.b',
    'a.',
    'a\nb',
    'a"b',
    'a\\b',
    'é',
    '*',
    '1',
    '01',
    '0.5',
    '1.5',
    '2',
  ],
  ...['/a', '//', 'a/b', '1s', '0s', '5m', '1.5h', '-1s', '1d', '1s5m', 'a:b', 'a, b', '10.0.0.1', '10.0.0.0/8', '::1'],
  ...[
    'http://a.example',
    'https://a.example',
    'https://a.example/b c',
    'HTTPS://a.example',
    'ftp://a.example',
    'https://',
  ],
  ...['a'.repeat(39), 'a'.repeat(40), 'A'.repeat(40), 'a'.repeat(64), 'postgres://a'],
]
const OTHER_TYPES = ['x', 0, 1.5, true, [], ['x'], {}, { x: 'x' }]

/** Returns texts of exactly this length, in the forms that patterns require. */
const ofLength = (length: number) =>
  ['', 'https://a.example/', '/'].filter((start) => start.length <= length).map((start) => start.padEnd(length, 'a'))

const distinct = (item: unknown, index: number): unknown => {
  if (typeof item === 'string') return `a${index}`
  return isObject(item) && typeof item['name'] === 'string' ? { ...item, name: `a${index}` } : item
}

const makeItems = (count: number, item: unknown) => Array.from({ length: count }, (_, index) => distinct(item, index))
const makeEntries = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, value]))

/** Returns values at, below and above each limit of a schema, of wrong forms and of wrong types. */
function valuesFor(node: SchemaNode, value: unknown): readonly unknown[] {
  const { minimum, maximum, enum: choices = [], maxItems = 0, maxProperties = 0 } = node
  const { minLength = 0, maxLength = 0 } = node as { minLength?: number; maxLength?: number }
  switch (node.type) {
    case 'string':
      return [...TEXTS, ...choices, ...[minLength - 1, minLength, maxLength, maxLength + 1].flatMap(ofLength)]
    case 'integer':
      return [
        ...LARGE,
        ...[minimum, maximum].flatMap((end) => (end === undefined ? [] : [end - 1, end, end + 1])),
        1.5,
        '1',
      ]
    case 'array': {
      const [item] = value as unknown[]
      return [[], [item], [item, item], makeItems(maxItems, item), makeItems(maxItems + 1, item)]
    }
    case 'object': {
      const inner = Object.values(value as object)[0]
      if (findValueSchema(node) === undefined) return [{}, { ...(value as object), notThere: 1 }]
      const keys = ['', 'a b', 'a', 'k'.repeat(253), 'k'.repeat(254)].map((key) => ({ [key]: inner }))
      return [{}, ...keys, makeEntries(maxProperties, inner), makeEntries(maxProperties + 1, inner)]
    }
    default:
      return []
  }
}

function* walkPlaces(place: PlaceOfBoth): Generator<PlaceOfBoth> {
  const { node, value, pointer, filePointer, field } = place
  if (node.mountedAs !== undefined || !isInFiles(node)) return
  yield place
  if (Array.isArray(value)) {
    const { items } = node
    for (const [index, item] of value.entries())
      if (items)
        yield* walkPlaces({
          pointer: at(pointer, index),
          filePointer: at(filePointer, index),
          field: `${field}/*`,
          node: items,
          value: item,
        })
  } else if (isObject(value))
    for (const [name, inner] of Object.entries(value)) {
      const child = childSchema(node, name)
      if (child === undefined) continue
      const isNamed = Object.hasOwn(node.properties ?? {}, name)
      const inFile = isNamed ? nameInFile(name, child) : name
      const places = { pointer: at(pointer, name), filePointer: at(filePointer, inFile) }
      yield* walkPlaces({ ...places, field: `${field}/${isNamed ? name : '*'}`, node: child, value: inner })
    }
}

const isWithin = ({ pointer }: Pick<Finding, 'pointer'>, place: string) =>
  pointer === place || pointer.startsWith(`${place}/`)

function listFindings(parse: Parse, value: unknown): readonly Finding[] {
  try {
    parse(JSON.stringify(value))
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.findings
    throw error
  }
}

/** Tells whether a schema has rules for a whole map or list. Rules across fields are not compared. */
const hasRules = (node: SchemaNode) =>
  node.properties === undefined &&
  (node['x-kubernetes-validations'] !== undefined || ['set', 'map'].includes(node['x-kubernetes-list-type'] ?? ''))

const format = (value: unknown) => {
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 50)}… (${text.length})` : text
}

/** Returns the first place of each field. */
const firstOfEach = (places: Iterable<PlaceOfBoth>): readonly PlaceOfBoth[] => [
  ...new Map([...places].reverse().map((place) => [place.field, place])).values(),
]

/** Converts a value to its form in a file: with paths in place of references. */
function inFileForm(node: SchemaNode, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => inFileForm(node.items ?? {}, item))
  if (!isObject(value)) return value
  if (node.mountedAs !== undefined) return 'a.pem'
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const child = childSchema(node, name) ?? {}
      return [Object.hasOwn(node.properties ?? {}, name) ? nameInFile(name, child) : name, inFileForm(child, inner)]
    }),
  )
}

const withValue = (root: unknown, pointer: string, value: unknown) =>
  value === undefined ? remove(root, pointer) : set(root, pointer, value)

/**
 * Returns every value at every place of a block that only one of the kind and the file accepts. `left` names fields that
 * are known to differ, with the reason.
 */
export function differences(block: Block, left: Readonly<Record<string, string>> = {}): readonly string[] {
  const { object, from, file, to, parse, parseWithRules = parse } = block
  const kind = kinds[object.kind as KindName]
  const structure = compileStructure({ type: 'object', properties: { spec: kind.spec as SchemaNode } })
  const spec = block.schema ?? stepsTo(kind.spec as SchemaNode, from)
  const places = walkPlaces({ pointer: from, filePointer: to, field: '', node: spec, value: valueAt(object, from) })
  const found: string[] = []
  for (const { pointer, filePointer, field, node, value } of firstOfEach(places)) {
    if (pointer === from || Object.hasOwn(left, field)) continue
    const isRuled = hasRules(node)
    for (const other of [...valuesFor(node, value), ...OTHER_TYPES, undefined]) {
      const form = withValue(object, pointer, other)
      const inKind = isRuled
        ? validateObject({ ...(form as object), apiVersion: 'portico.dev/v1beta1' }, 'portico.dev')
        : structure({ spec: (form as KubernetesObject)['spec'] })
      const isTaken = !inKind.some((finding) => isWithin(finding, pointer))
      const inFile = listFindings(
        isRuled ? parseWithRules : parse,
        withValue(file, filePointer, inFileForm(node, other)),
      )
      const isTakenInFile = !inFile.some((finding) => isWithin(finding, filePointer))
      if (isTaken !== isTakenInFile)
        found.push(
          `${field}: ${other === undefined ? 'absent' : format(other)} is taken by the ${isTaken ? 'kind' : 'file'} alone`,
        )
    }
  }
  return found
}

const stepsTo = (spec: SchemaNode, pointer: string): SchemaNode =>
  pointer
    .split('/')
    .slice(2)
    .reduce((node, name) => childSchema(node, name) ?? {}, spec)
