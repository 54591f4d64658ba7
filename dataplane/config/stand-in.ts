import type { TSchema } from 'typebox'

/** The keywords that matter here; all of them may be absent. */
interface Shape {
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly anyOf?: readonly TSchema[]
  readonly oneOf?: readonly TSchema[]
  readonly properties?: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
  readonly items?: TSchema
  readonly minItems?: number
  readonly minimum?: number
  readonly pattern?: string
}

/** Texts that fit the patterns of our schemas: names, URLs, durations, paths, addresses. */
const TEXTS = ['a', 'https://a.example', '1s', '/a', 'a:1', 'postgres://a', 'a'.repeat(40)]

/** A small value of a schema, for the place of one that is missing or of the wrong type. */
export function standIn(schema: TSchema): unknown {
  const shape = schema as Shape
  if (shape.default !== undefined) return structuredClone(shape.default)
  if (shape.const !== undefined) return shape.const
  if (shape.enum !== undefined) return shape.enum[0]
  const [member] = shape.anyOf ?? shape.oneOf ?? []
  if (member !== undefined) return standIn(member)
  switch (shape.type) {
    case 'object':
      return Object.fromEntries(
        (shape.required ?? []).map((name) => [name, standIn(shape.properties?.[name] ?? ({} as TSchema))]),
      )
    case 'array':
      return Array.from({ length: shape.minItems ?? 0 }, () => standIn(shape.items ?? ({} as TSchema)))
    case 'integer':
    case 'number':
      return shape.minimum ?? 0
    case 'boolean':
      return false
    default: {
      const pattern = new RegExp(shape.pattern ?? '', 'u')
      return TEXTS.find((text) => pattern.test(text)) ?? ''
    }
  }
}
