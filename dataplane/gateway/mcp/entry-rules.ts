import { isObject } from '../../../crds/settings/json.ts'
import { editObject, memberText } from './json.ts'

/**
 * The rules of official clients for an entry of a list. A client refuses the whole list for one entry that its schema
 * refuses, so such an entry is repaired if nothing is lost, and otherwise omitted.
 */

/** The kinds of entries that a server lists. */
export type EntryKind = 'tools' | 'prompts' | 'resources' | 'templates'

/** An entry that follows the rules of clients, with its JSON text, value and repairs; or the rule that omits it. */
export type ReadEntry =
  | { readonly text: string; readonly value: Readonly<Record<string, unknown>>; readonly mended: readonly string[] }
  | { readonly broken: string }

type JsonObject = Readonly<Record<string, unknown>>

/** Returns the value in a form that clients accept, unchanged if it is valid. Throws a BrokenRule. */
type Rule = (value: unknown, at: string) => unknown

class BrokenRule extends Error {}

/** Returns the rule for a value of one kind, which is never changed. */
const must =
  (be: string, isRight: (value: unknown) => boolean): Rule =>
  (value, at) => {
    if (!isRight(value)) throw new BrokenRule(`${at} must be ${be}`)
    return value
  }

const text = must('a string', (value) => typeof value === 'string')
const boolean = must('true or false', (value) => typeof value === 'boolean')
const number = (min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY): Rule =>
  must('a number in range', (value) => typeof value === 'number' && value >= min && value <= max)
const oneOf = (...values: readonly string[]): Rule =>
  must(values.join(' or '), (value) => values.includes(value as string))

const listOf =
  (rule: Rule): Rule =>
  (value, at) => {
    if (!Array.isArray(value)) throw new BrokenRule(`${at} must be a list`)
    const kept = value.map((item, index) => rule(item, `${at}/${index}`))
    return kept.every((item, index) => item === value[index]) ? value : kept
  }

/** Returns the rule for a map from names to values of one kind. */
const recordOf =
  (rule: Rule): Rule =>
  (value, at) => {
    if (!isObject(value)) throw new BrokenRule(`${at} must be an object`)
    return withMembers(
      value,
      Object.keys(value).map((name) => [name, rule]),
      at,
    )
  }

/** Returns the rule for an object. Listed members are checked if present, and some are required. */
const object =
  (members: Readonly<Record<string, Rule>>, ...needed: readonly string[]): Rule =>
  (value, at) => {
    if (!isObject(value)) throw new BrokenRule(`${at} must be an object`)
    const kept = withMembers(value, Object.entries(members), at)
    const missing = needed.find((name) => kept[name] === undefined)
    if (missing !== undefined) throw new BrokenRule(`${joinPointer(at, missing)} is missing`)
    return kept
  }

const joinPointer = (at: string, name: string): string => (at === '' ? name : `${at}/${name}`)

/** Returns the object with its members changed by their rules, and without those that are null. */
function withMembers(value: JsonObject, rules: readonly (readonly [string, Rule])[], at: string): JsonObject {
  let kept = value
  for (const [name, rule] of rules) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined
    if (member === undefined) continue
    const right = member === null ? undefined : rule(member, joinPointer(at, name))
    if (right === member) continue
    if (kept === value) kept = { ...value }
    if (right === undefined) delete (kept as Record<string, unknown>)[name]
    else (kept as Record<string, unknown>)[name] = right
  }
  return kept
}

/**
 * The rule for the schema of one property. SDK 1 accepts only objects, so `true` and `false` are converted to objects.
 */
function propertySchema(value: unknown, at: string): unknown {
  if (typeof value === 'boolean') return value ? {} : { not: {} }
  if (!isObject(value)) throw new BrokenRule(`${at} must be an object`)
  return value
}

/** The rule for an object schema. Until 2025-11-25 a tool's schemas must be object schemas. */
const objectSchema = object(
  { $schema: text, type: oneOf('object'), properties: recordOf(propertySchema), required: listOf(text) },
  'type',
)

function inputSchema(value: unknown, at: string): unknown {
  if (!isObject(value)) throw new BrokenRule(`${at} must be an object`)
  const { type, properties } = value
  if (Object.keys(value).length === 0) return { type: 'object' }
  // A schema with properties but no type is an object schema, because arguments are always objects.
  const isUntyped = (type === undefined || type === null) && isObject(properties)
  return objectSchema(isUntyped ? { ...value, type: 'object' } : value, at)
}

const icons = listOf(object({ src: text, mimeType: text, sizes: listOf(text), theme: oneOf('light', 'dark') }, 'src'))
const meta = object({})
const common = { name: text, title: text, description: text, icons, _meta: meta }

const DATE_TIME =
  /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/
const dateTime = must('a date with time and offset', (value) => typeof value === 'string' && DATE_TIME.test(value))
const annotations = object({
  audience: listOf(oneOf('user', 'assistant')),
  priority: number(0, 1),
  lastModified: dateTime,
})

const rules: Readonly<Record<EntryKind, Rule>> = {
  tools: object(
    {
      ...common,
      inputSchema,
      outputSchema: object({ $schema: text }),
      annotations: object({
        title: text,
        readOnlyHint: boolean,
        destructiveHint: boolean,
        idempotentHint: boolean,
        openWorldHint: boolean,
      }),
      execution: object({ taskSupport: oneOf('required', 'optional', 'forbidden') }),
    },
    'name',
    'inputSchema',
  ),
  prompts: object(
    { ...common, arguments: listOf(object({ name: text, description: text, required: boolean }, 'name')) },
    'name',
  ),
  resources: object({ ...common, uri: text, mimeType: text, size: number(), annotations }, 'name', 'uri'),
  templates: object({ ...common, uriTemplate: text, mimeType: text, annotations }, 'name', 'uriTemplate'),
}

/** Reads one entry (JSON text) of a list. */
export function readEntry(kind: EntryKind, entry: string): ReadEntry {
  const given: unknown = JSON.parse(entry)
  if (!isObject(given)) return { broken: 'an entry must be an object' }
  const isWithoutInput = kind === 'tools' && (given['inputSchema'] === undefined || given['inputSchema'] === null)
  const complete = isWithoutInput ? { ...given, inputSchema: { type: 'object' } } : given
  try {
    const value = rules[kind](complete, '') as JsonObject
    if (value === given) return { text: entry, value, mended: [] }
    const names = new Set([...Object.keys(given), ...Object.keys(value)])
    const mended = [...names].filter((name) => value[name] !== given[name])
    const edits = mended.map((name) => [name, value[name] === undefined ? undefined : JSON.stringify(value[name])])
    return { text: editObject(entry, Object.fromEntries(edits)), value, mended }
  } catch (error) {
    if (error instanceof BrokenRule) return { broken: error.message }
    throw error
  }
}

/**
 * Returns a tool (JSON text) for clients with sessions. Until 2025-11-25 an `outputSchema` must be an object schema, so
 * any other is removed.
 */
export function toolForSession(tool: string): string {
  const schema = tool.includes('"outputSchema"') ? memberText(tool, 'outputSchema') : undefined
  if (schema === undefined) return tool
  try {
    const value: unknown = JSON.parse(schema)
    if (objectSchema(value, '') === value) return tool
  } catch {
    // Such a client does not accept this schema.
  }
  return editObject(tool, { outputSchema: undefined })
}
