/** Templates of composite tools: a part of Go's template language without loops and variables. */

/** The first name of a template's fields. */
export type Root = 'params' | 'steps' | 'forEach'

/** A path of members below a root. `at` is its index in the template. */
export interface Path {
  readonly kind: 'path'
  readonly root: Root
  readonly steps: readonly string[]
  readonly at: number
}

export interface Call {
  readonly kind: 'call'
  readonly name: string
  readonly args: readonly Expression[]
}

export interface Member {
  readonly kind: 'member'
  readonly of: Expression
  readonly steps: readonly string[]
}

export interface Literal {
  readonly kind: 'literal'
  readonly value: string | number | boolean | null
}

export type Expression = Path | Call | Member | Literal

/** The branches of a choice; the first whose condition holds is taken. */
export interface Choice {
  readonly kind: 'choice'
  readonly branches: readonly { readonly condition: Expression; readonly parts: readonly Part[] }[]
  readonly otherwise: readonly Part[]
}

/** Literal text, a value shown as text, or a choice. */
export type Part = string | Expression | Choice

export interface Template {
  readonly parts: readonly Part[]
  /** The expression that is the whole template; its value keeps its JSON type. */
  readonly whole: Expression | undefined
  readonly paths: readonly Path[]
}

/** Reports a text that is not a supported template. `at` is the index of the first wrong character. */
export class TemplateError extends Error {
  readonly at: number

  constructor(message: string, at: number) {
    super(message)
    this.at = at
  }
}
