/** JSON texts of every type, including values that programs often mishandle. */
export const WRONG_VALUES: readonly string[] = [
  'null',
  'true',
  '0',
  '-1',
  '1.5',
  '1e999',
  '9007199254740993',
  '""',
  '"x"',
  '"\\ud800"',
  '"__proto__"',
  '[]',
  '[null]',
  '[[1]]',
  '{}',
  // Cannot be converted to a string or a number.
  '{"toString":1,"valueOf":1,"then":1,"length":-1}',
  '{"__proto__":{"method":"x"},"constructor":{"prototype":1}}',
  `${'['.repeat(1_000)}${']'.repeat(1_000)}`,
  `${'{"a":'.repeat(1_000)}1${'}'.repeat(1_000)}`,
  // Deeper than recursive code can walk.
  `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
  `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
]

export interface Variant {
  /** JSON text of the message. */
  readonly text: string
  /** The wrong field, and what is wrong with it. */
  readonly what: string
}

const MARK = '\u0001'

/** Returns the message with one wrong value for each field and value, and without each field. */
export function buildVariants(message: object): Variant[] {
  const variants: Variant[] = []
  for (const path of pathsIn(message)) {
    const marked = JSON.stringify(withValue(message, path, MARK))
    const what = `/${path.join('/')}`
    for (const value of WRONG_VALUES)
      variants.push({
        text: marked.replace(JSON.stringify(MARK), () => value),
        what: `${what} = ${value.slice(0, 40)}`,
      })
    variants.push({ text: JSON.stringify(withValue(message, path, undefined)), what: `${what} is absent` })
  }
  return variants
}

function pathsIn(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [[...path, key], ...pathsIn(inner, [...path, key])])
}

function withValue(value: unknown, [key, ...rest]: readonly string[], put: unknown): unknown {
  if (key === undefined) return put
  const copy: Record<string, unknown> = Array.isArray(value) ? (value.slice() as never) : { ...(value as object) }
  copy[key] = withValue(copy[key], rest, put)
  return copy
}

/** Returns the same fifth of them each time: every field with some values, and every value with some fields. */
export const takeSample = (variants: readonly Variant[]): Variant[] =>
  variants.filter(({ what }) => digest(what) % 5 === 0)

/** Returns a number that is always the same for a text. */
export const digest = (text: string): number =>
  Math.abs([...text].reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) | 0, 7))
