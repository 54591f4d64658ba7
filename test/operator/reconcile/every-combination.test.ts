/**
 * Checks that no combination that the schema accepts has an ignored field. From each object of the corpus it makes
 * variants: each other value of a switch, one field alone in its block, and one field more. A variant is refused
 * (schema, rule or condition), or each field beside the change still changes the plan, at least by a warning that names
 * the field.
 */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type KindName, kinds, validateObject } from '../../../crds/index.ts'
import { at, isObject } from '../../../crds/settings/json.ts'
import { childSchema, type SchemaNode } from '../../../crds/walk.ts'
import { fillWorld, type KubernetesObject } from '../../../operator/model/index.ts'
import { fieldCorpus } from '../../support/operator/field-corpus.ts'
import {
  another,
  type Leaf,
  planToText,
  readersAmong,
  remove,
  set,
  valueAt,
  walkLeaves,
} from '../../support/operator/fields.ts'
import { addDefaults, ChangedWorld, formatName, worldContent } from '../../support/operator/plans.ts'

const content = worldContent(fieldCorpus)
const objects = [...content.objects]
const buildView = (all: readonly KubernetesObject[]) => fillWorld({ ...content, objects: all }).view

const world = new ChangedWorld(content)
const before = new Map(objects.map((object) => [formatName(object), planToText(object, world.view)]))

/** The objects whose plans change if the object of this name is missing. */
const dependents = new Map(
  [...readersAmong(objects, world.view)].map(([name, readers]) => {
    const view = buildView(objects.filter((other) => formatName(other) !== name))
    return [name, readers.filter((other) => planToText(other, view) !== before.get(formatName(other)))]
  }),
)

/** The plans of one variant and of every object that depends on it, computed on demand. */
class Plans {
  readonly names: readonly string[]
  readonly #made: string[] = []
  readonly #rest: Iterator<string>

  constructor(form: KubernetesObject) {
    const name = formatName(form)
    const others = dependents.get(name) ?? []
    this.names = [name, ...others.map(formatName)]
    this.#rest = (function* () {
      for (const object of [form, ...others]) yield planToText(object, world.with(form))
    })()
  }

  at(index: number): string {
    while (this.#made.length <= index) this.#made.push(this.#rest.next().value as string)
    return this.#made[index] as string
  }

  differFrom(other: Plans): boolean {
    return this.names.some((_, index) => this.at(index) !== other.at(index))
  }
}

interface Output {
  readonly type: string
  readonly status: string
  readonly message: string
}

/** Caches the plans of each variant. */
const madePlans = new WeakMap<KubernetesObject, Plans>()

function planForm(form: KubernetesObject): Plans {
  const created = madePlans.get(form) ?? new Plans(form)
  madePlans.set(form, created)
  return created
}

const listOutputs = (plan: string): readonly Output[] =>
  (JSON.parse(plan) as { status: { conditions: readonly Output[] } }).status.conditions

const complaints = (plan: string): readonly string[] =>
  listOutputs(plan)
    .filter(({ status }) => status === 'False')
    .map(({ type, message }) => `${type}: ${message}`)

const complaintsBefore = new Map([...before].map(([name, plan]) => [name, new Set(complaints(plan))]))

const refusals = (form: KubernetesObject) =>
  validateObject({ ...form, apiVersion: 'portico.dev/v1beta1' }, 'portico.dev').map(
    ({ pointer, message }) => `${pointer} ${message}`,
  )

/** Returns why a variant is refused: the errors of the schema and its rules, or the first conditions that become False. */
function reasonsAgainst(form: KubernetesObject): readonly string[] {
  const found = refusals(form)
  if (found.length > 0) return found
  const plans = planForm(form)
  for (const [index, name] of plans.names.entries()) {
    const more = complaints(plans.at(index)).filter((text) => !complaintsBefore.get(name)?.has(text))
    if (more.length > 0) return more
  }
  return []
}

/** An object in the schema that is set, with all its fields. */
interface Block {
  readonly pointer: string
  readonly field: string
  readonly schema: SchemaNode
  readonly value: Record<string, unknown>
}

function* walkBlocks(schema: SchemaNode, value: unknown, pointer: string, field: string): Generator<Block> {
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries())
      yield* walkBlocks(schema.items ?? {}, item, at(pointer, index), `${field}/*`)
  } else if (isObject(value)) {
    if (schema.properties) yield { pointer, field, schema, value }
    for (const [key, inner] of Object.entries(value)) {
      const step = Object.hasOwn(schema.properties ?? {}, key) ? key : '*'
      yield* walkBlocks(childSchema(schema, key) ?? {}, inner, at(pointer, key), `${field}/${step}`)
    }
  }
}

/** Returns the fields that warnings name; these are reported as having no effect. */
function listNamedPlaces(plans: Plans): readonly string[] {
  const all = plans.names.flatMap((_, index) => listOutputs(plans.at(index)))
  const warnings = all.filter(({ type, status }) => type.endsWith('Warning') && status === 'True')
  return warnings.flatMap(({ message }) => message.match(/\/spec[\w/]*/g) ?? [])
}

const isRequired = ({ schema }: Block, key: string) => (schema.required ?? []).includes(key)
const specSchema = ({ kind }: KubernetesObject) => kinds[kind as KindName].spec as SchemaNode
const blocksIn = (object: KubernetesObject) => [...walkBlocks(specSchema(object), object['spec'], '/spec', '')]

/** An example value for each field of each kind, to set in objects that lack it. */
const examples = new Map<string, unknown>()
for (const object of objects)
  for (const { field, value } of blocksIn(object))
    for (const [key, inner] of Object.entries(value)) examples.set(`${object.kind} ${field}/${key}`, inner)

interface Form {
  readonly what: string
  readonly object: KubernetesObject
  /** Tells whether a field must have an effect here. */
  readonly isMeant: (leaf: Leaf) => boolean
}

const normalizeForm = (object: unknown) => addDefaults(object as KubernetesObject)

/**
 * Yields the variants of an object with another value of a switch. If one is refused, it yields it without the fields
 * beside the switch that the refusal names, or with them.
 */
function* generateSwitched(
  object: KubernetesObject,
  block: Block,
  key: string,
  depth = 0,
): Generator<KubernetesObject> {
  const why = reasonsAgainst(object)
  if (why.length === 0) yield object
  if (why.length === 0 || depth === 2) return
  const named = new Set(why.join(' ').match(/[A-Za-z]+/g))
  const present = valueAt(object, block.pointer) as Record<string, unknown>
  for (const other of Object.keys(block.schema.properties ?? {})) {
    if (other === key || !named.has(other)) continue
    const pointer = at(block.pointer, other)
    const example = examples.get(`${object.kind} ${block.field}/${other}`)
    if (Object.hasOwn(present, other)) {
      if (!isRequired(block, other))
        yield* generateSwitched(normalizeForm(remove(object, pointer)), block, key, depth + 1)
    } else if (example !== undefined)
      yield* generateSwitched(normalizeForm(set(object, pointer, example)), block, key, depth + 1)
  }
}

function* generateForms(object: KubernetesObject, isWanted: (form: Form) => boolean): Generator<Form> {
  for (const block of blocksIn(object)) {
    const { pointer, field, schema, value } = block
    const isBeside = (leaf: Leaf) =>
      leaf.pointer.startsWith(`${pointer}/`) && leaf.field.split('/').length <= field.split('/').length + 2
    for (const [key, node] of Object.entries(schema.properties ?? {})) {
      const own = at(pointer, key)
      if (typeof node.readBy === 'object') continue
      if (!Object.hasOwn(value, key)) {
        const example = examples.get(`${object.kind} ${field}/${key}`)
        if (example === undefined) continue
        const more = normalizeForm(set(object, own, example))
        const form = { what: `with ${field}/${key}`, object: more, isMeant: (leaf: Leaf) => isWithin(leaf, own) }
        if (isWanted(form) && reasonsAgainst(more).length === 0) yield form
        continue
      }
      for (const other of node.enum ?? (node.type === 'boolean' && key !== 'enabled' ? [!value[key]] : [])) {
        if (other === value[key] || Object.hasOwn(node.refusedValues ?? {}, String(other))) continue
        for (const form of generateSwitched(normalizeForm(set(object, own, other)), block, key))
          yield { what: `${field}/${key} ${other}`, object: form, isMeant: isBeside }
      }
      if (pointer === '/spec' || isRequired(block, key)) continue
      const remaining = Object.entries(value).filter(
        ([name]) => name === key || name === 'enabled' || isRequired(block, name),
      )
      const alone = normalizeForm(set(object, pointer, Object.fromEntries(remaining)))
      const form = { what: 'alone', object: alone, isMeant: (leaf: Leaf) => isWithin(leaf, own) }
      if (isWanted(form) && reasonsAgainst(alone).length === 0) yield form
    }
  }
}

const isWithin = ({ pointer }: Leaf, place: string) => pointer === place || pointer.startsWith(`${place}/`)

/** A permission has no effect where nothing needs it. */
const isLeave = ({ field, value }: Leaf) => value === true && /\/(insecure|allow|\w+Allow)[A-Z]\w*$/.test(field)

/** Tells whether another value of the field, or its absence, is refused or changes the plan. */
function isRead(form: KubernetesObject, plans: Plans, leaf: Leaf, other: unknown): boolean {
  const changed = normalizeForm(set(form, leaf.pointer, other))
  if (refusals(changed).length > 0 || new Plans(changed).differFrom(plans)) return true
  const absent = normalizeForm(remove(form, leaf.pointer))
  return refusals(absent).length === 0 && new Plans(absent).differFrom(plans)
}

for (const kind of Object.keys(kinds) as KindName[])
  test(`${kind}: no field is ignored beside another value of a switch, alone, or beside one more`, () => {
    const seen = new Set<string>()
    const ignored = new Set<string>()
    /** Yields the fields of a variant that have to be checked, each with another value. */
    function* openIn({ what, object: form, isMeant }: Form) {
      for (const leaf of walkLeaves(specSchema(form), form['spec'], '/spec', '')) {
        const id = `${what}: ${leaf.field}`
        if (seen.has(id) || !isMeant(leaf) || isLeave(leaf) || typeof leaf.schema.readBy === 'object') continue
        const other = another(leaf)
        if (other !== undefined && leaf.schema.default !== leaf.value) yield { id, leaf, other }
      }
    }
    // Computing whether a variant is refused takes longest, so variants with nothing to check are left out.
    const isWanted = (form: Form) => !openIn(form).next().done
    for (const object of objects.filter((one) => one.kind === kind)) {
      for (const variant of generateForms(object, isWanted)) {
        const { object: form } = variant
        const plans = planForm(form)
        for (const { id, leaf, other } of openIn(variant)) {
          const isNamed = () => listNamedPlaces(plans).some((place) => isWithin(leaf, place))
          if (isRead(form, plans, leaf, other) || isNamed()) seen.add(id)
          else ignored.add(`${object.metadata.name}, ${id}`)
        }
      }
    }
    assert.equal([...ignored], [], 'accepted and ignored')
  })

test.run()
