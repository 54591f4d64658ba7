import { TemplateError } from './template.ts'

/** A word, mark or literal inside an action. */
export interface Token {
  /** `fields` is `.a.b`; `value` is the content of a literal. */
  readonly kind: 'word' | 'fields' | 'literal' | '(' | ')' | '|' | 'end'
  readonly text: string
  readonly value?: string | number
  readonly at: number
}

/** The sticky patterns below match at one place alone, so that no text is read twice. */
const SPACE = /[ \t\r\n]*/y
const WORD = /[A-Za-z_][A-Za-z0-9_]*/y
const FIELDS = /(?:\.[A-Za-z_][A-Za-z0-9_-]*)+/y
const NUMBER = /-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const QUOTED = /"(?:[^"\\\n]|\\.)*"/y
const RAW = /`[^`]*`/y

/** Reads the tokens of one action, whose inside is `text` from `from` to the `}}` that ends it. */
export class Tokens {
  readonly #text: string
  #at: number
  next: Token

  constructor(text: string, from: number) {
    this.#text = text
    this.#at = from
    this.next = this.#read()
  }

  /** Index behind the `}}`, and whether the white space behind it is dropped; known once `next` is `end`. */
  get end(): { readonly at: number; readonly trims: boolean } {
    const trims = this.next.text === '-}}'
    return { at: this.next.at + this.next.text.length, trims }
  }

  take(): Token {
    const token = this.next
    if (token.kind !== 'end') this.next = this.#read()
    return token
  }

  #read(): Token {
    const spaceFrom = this.#at
    this.#match(SPACE)
    const at = this.#at
    const text = this.#text
    const isSpaced = at > spaceFrom
    if (text.startsWith('}}', at)) return { kind: 'end', text: '}}', at }
    if (isSpaced && text.startsWith('-}}', at)) return { kind: 'end', text: '-}}', at }
    const mark = text[at]
    if (mark === undefined) throw new TemplateError('the action is not closed by }}', at)
    if (mark === '(' || mark === ')' || mark === '|') {
      this.#at++
      return { kind: mark, text: mark, at }
    }
    return this.#readWord(at)
  }

  #readWord(at: number): Token {
    const fields = this.#match(FIELDS)
    if (fields !== undefined) return { kind: 'fields', text: fields, at }
    const word = this.#match(WORD)
    if (word !== undefined) return { kind: 'word', text: word, at }
    const number = this.#match(NUMBER)
    if (number !== undefined) return { kind: 'literal', text: number, value: Number(number), at }
    const quoted = this.#match(QUOTED)
    if (quoted !== undefined) return { kind: 'literal', text: quoted, value: unquoted(quoted, at), at }
    const raw = this.#match(RAW)
    if (raw !== undefined) return { kind: 'literal', text: raw, value: raw.slice(1, -1), at }
    throw new TemplateError(reasonAt(this.#text, at), at)
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined) return undefined
    this.#at += found.length
    return found
  }
}

/** Returns why no token begins here. */
function reasonAt(text: string, at: number): string {
  const mark = text[at]
  if (mark === '$') return 'variables are not supported'
  if (mark === '"' || mark === '`') return 'the text is not closed'
  if (mark === '.') return 'a bare `.` is not supported: begin with .params, .steps or .forEach'
  return `${JSON.stringify(mark)} is not expected here`
}

function unquoted(text: string, at: number): string {
  try {
    return JSON.parse(text) as string
  } catch {
    throw new TemplateError('the text has an escape that JSON does not know', at)
  }
}
