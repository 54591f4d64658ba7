import { isObject } from '../../crds/settings/json.ts'

/** A field of the form for a tool's arguments. */
export interface Field {
  readonly name: string
  readonly label: string
  readonly hint: string
  readonly kind: 'text' | 'number' | 'integer' | 'boolean' | 'choice' | 'json'
  readonly isRequired: boolean
  readonly choices: readonly string[]
  readonly min: number | undefined
  readonly max: number | undefined
  readonly longest: number | undefined
  /** The beginning of a JSON value, for a field that takes JSON. */
  readonly example: string
}

const MOST_FIELDS = 100
/** The most questions of one tool. */
export const MOST_QUESTIONS = 20

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined

/**
 * Returns the form fields for a schema of arguments. A value that is not a string, number or boolean is entered as
 * JSON.
 */
export function readFields(schema: unknown): readonly Field[] {
  const { properties, required } = isObject(schema) ? schema : {}
  const needed = new Set(Array.isArray(required) ? required : [])
  return Object.entries(isObject(properties) ? properties : {})
    .slice(0, MOST_FIELDS)
    .map(([name, property]) => readField(name, isObject(property) ? property : {}, needed.has(name)))
}

function readField(name: string, property: Readonly<Record<string, unknown>>, isRequired: boolean): Field {
  const choices = Array.isArray(property['enum']) ? property['enum'].filter((one) => typeof one === 'string') : []
  const isChoice = choices.length > 0 && choices.length <= 500
  return {
    name,
    label: text(property['title']) || name,
    hint: text(property['description']),
    kind: isChoice ? 'choice' : chooseKind(property),
    isRequired,
    choices,
    min: number(property['minimum']),
    max: number(property['maximum']),
    longest: number(property['maxLength']),
    example: property['type'] === 'array' ? '["…", "…"]' : property['type'] === 'object' ? '{"…": "…"}' : '',
  }
}

const PLAIN: Readonly<Record<string, Field['kind']>> = {
  string: 'text',
  number: 'number',
  integer: 'integer',
  boolean: 'boolean',
}

function chooseKind({ type, oneOf, anyOf, allOf }: Readonly<Record<string, unknown>>): Field['kind'] {
  if (oneOf !== undefined || anyOf !== undefined || allOf !== undefined) return 'json'
  return (typeof type === 'string' && Object.hasOwn(PLAIN, type) ? PLAIN[type] : undefined) ?? 'json'
}

/** The prefix of the inputs' names. */
export const INPUT = 'arg.'

/**
 * Reads the arguments from a form: the raw JSON if it was entered, else the fields. Returns a message for an invalid
 * one.
 */
export function readArguments(
  form: URLSearchParams,
  fields: readonly Field[],
): Readonly<Record<string, unknown>> | string {
  const raw = form.get('raw') ?? ''
  if (raw.trim() !== '') {
    const value = parseJson(raw)
    return isObject(value) ? value : 'The raw arguments are no JSON object.'
  }
  const found: [string, unknown][] = []
  for (const field of fields) {
    const given = form.get(`${INPUT}${field.name}`) ?? ''
    if (given === '' && field.isRequired) return `${field.name}: a value is required.`
    if (given === '') continue
    const value = readValue(field, given)
    if (value === undefined) return explainInvalid(field)
    found.push([field.name, value])
  }
  return Object.fromEntries(found)
}

/**
 * Returns the input's name for a field of a question. It contains the field's kind, which gives the answer its type.
 */
export const answerName = (question: number, { kind, name }: Field): string => `in.${question}.${kind}.${name}`

/** Reads the answers to a tool's questions; undefined if there were none. Returns a message for an invalid one. */
export function readAnswers(form: URLSearchParams): Readonly<Record<string, unknown>> | string | undefined {
  const ids = form.getAll('ask').slice(0, MOST_QUESTIONS)
  if (ids.length === 0) return undefined
  const found: [string, unknown][] = []
  for (const [question, id] of ids.entries()) {
    const action = form.get(`do.${question}`) ?? 'cancel'
    const content = action === 'accept' ? readAnswersTo(form, question) : undefined
    if (typeof content === 'string') return content
    found.push([id, { action, ...(content && { content }) }])
  }
  return Object.fromEntries(found)
}

function readAnswersTo(form: URLSearchParams, question: number): Readonly<Record<string, unknown>> | string {
  const found: [string, unknown][] = []
  for (const [input, given] of form) {
    const [, kind, name] = new RegExp(`^in\\.${question}\\.(\\w+)\\.(.*)$`, 's').exec(input) ?? []
    if (kind === undefined || name === undefined || given === '') continue
    const value = readValue({ kind }, given)
    if (value === undefined) return `${name}: this is no ${kind === 'json' ? 'JSON' : kind}.`
    found.push([name, value])
  }
  return Object.fromEntries(found)
}

function explainInvalid({ name, kind, example }: Field): string {
  if (kind !== 'json') return `${name}: this is no ${kind}.`
  return `${name}: this is no JSON.${example === '' ? '' : ` It looks like ${example}.`}`
}

function readValue({ kind }: { readonly kind: string }, given: string): unknown {
  if (kind === 'text' || kind === 'choice') return given
  const value = parseJson(given)
  if (kind === 'number') return typeof value === 'number' ? value : undefined
  if (kind === 'integer') return Number.isInteger(value) ? value : undefined
  return value
}

function parseJson(given: string): unknown {
  try {
    return JSON.parse(given)
  } catch {
    return undefined
  }
}
