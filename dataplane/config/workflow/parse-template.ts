import {
  type Choice,
  type Expression,
  type Part,
  type Path,
  type Root,
  type Template,
  TemplateError,
} from './template.ts'

/** The deepest nesting of parentheses, and of choices. */
const DEEPEST = 100
const ROOTS: ReadonlySet<string> = new Set(['params', 'steps', 'forEach'])
/** Words of Go templates that begin an unsupported construct. */
const UNSERVED: ReadonlySet<string> = new Set(['range', 'with', 'define', 'template', 'block', 'break', 'continue'])

/** The functions of templates, with the fewest and the most arguments. gateway/workflows implements them. */
export const templateFunctions: ReadonlyMap<string, readonly [least: number, most: number]> = new Map([
  ['and', [1, 16]],
  ['or', [1, 16]],
  ['not', [1, 1]],
  ['eq', [2, 16]],
  ['ne', [2, 2]],
  ['lt', [2, 2]],
  ['le', [2, 2]],
  ['gt', [2, 2]],
  ['ge', [2, 2]],
  ['len', [1, 1]],
  ['index', [2, 16]],
  ['json', [1, 1]],
  ['fromJson', [1, 1]],
  ['quote', [1, 1]],
  ['string', [1, 1]],
  ['default', [2, 2]],
  ['printf', [1, 16]],
])

/** Parses a template in time linear in its text. Throws a TemplateError. */
export function parseTemplate(text: string): Template {
  const parser = new Parser(text)
  const parts = parser.parts()
  const [only] = parts
  const isWhole = parts.length === 1 && typeof only === 'object' && only.kind !== 'choice'
  return { parts, whole: isWhole ? only : undefined, paths: parser.paths }
}

class OpenChoice implements Choice {
  readonly kind = 'choice'
  readonly at: number
  readonly branches: { readonly condition: Expression; readonly parts: Part[] }[] = []
  readonly otherwise: Part[] = []
  hasElse = false

  constructor(at: number) {
    this.at = at
  }

  get last(): Part[] {
    return this.hasElse ? this.otherwise : (this.branches.at(-1)?.parts ?? this.otherwise)
  }

  branch(condition: Expression): void {
    this.branches.push({ condition, parts: [] })
  }
}

class Parser {
  readonly paths: Path[] = []
  readonly #text: string
  readonly #open: OpenChoice[] = []
  readonly #top: Part[] = []
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  get #parts(): Part[] {
    return this.#open.at(-1)?.last ?? this.#top
  }

  parts(): readonly Part[] {
    const text = this.#text
    let at = 0
    let trims = false
    while (at < text.length) {
      const opening = text.indexOf('{{', at)
      const before = text.slice(at, opening === -1 ? text.length : opening)
      if (opening === -1) {
        this.#say(before, trims, false)
        break
      }
      const trimsBefore = /^-[ \t\r\n]/.test(text.slice(opening + 2, opening + 4))
      this.#say(before, trims, trimsBefore)
      const end = this.#action(opening + (trimsBefore ? 3 : 2), opening)
      at = end.at
      trims = end.trims
    }
    const left = this.#open.at(-1)
    if (left !== undefined) throw new TemplateError('{{if}} has no {{end}}', left.at)
    return this.#top
  }

  #say(text: string, trimsStart: boolean, trimsEnd: boolean): void {
    const from = trimsStart ? text.trimStart() : text
    const said = trimsEnd ? from.trimEnd() : from
    if (said !== '') this.#parts.push(said)
  }

  #action(from: number, opening: number): Tokens['end'] {
    if (this.#text.startsWith('/*', from)) return this.#comment(from)
    const tokens = new Tokens(this.#text, from)
    const { next } = tokens
    if (next.kind === 'word' && UNSERVED.has(next.text))
      throw new TemplateError(`${next.text} is not supported: templates have no loops and no parts by name`, next.at)
    if (next.kind === 'word' && next.text === 'if') this.#if(tokens, opening)
    else if (next.kind === 'word' && next.text === 'else') this.#else(tokens)
    else if (next.kind === 'word' && next.text === 'end') this.#end(tokens)
    else this.#parts.push(this.#pipeline(tokens))
    if (tokens.next.kind !== 'end') throw new TemplateError(`${tokens.next.text} is not expected here`, tokens.next.at)
    return tokens.end
  }

  #comment(from: number): Tokens['end'] {
    const end = this.#text.indexOf('*/', from + 2)
    const closing = end === -1 ? null : /^( -)?\}\}/.exec(this.#text.slice(end + 2, end + 6))
    if (closing === null) throw new TemplateError('the comment is not closed by */}}', from)
    return { at: end + 2 + closing[0].length, trims: closing[1] !== undefined }
  }

  #if(tokens: Tokens, at: number): void {
    tokens.take()
    if (this.#open.length >= DEEPEST) throw new TemplateError(`nested deeper than ${DEEPEST} levels`, at)
    const choice = new OpenChoice(at)
    choice.branch(this.#pipeline(tokens))
    this.#parts.push(choice)
    this.#open.push(choice)
  }

  #else(tokens: Tokens): void {
    const { at } = tokens.take()
    const choice = this.#open.at(-1)
    if (choice === undefined || choice.hasElse) throw new TemplateError('{{else}} belongs to no {{if}}', at)
    if (tokens.next.kind === 'word' && tokens.next.text === 'if') {
      tokens.take()
      choice.branch(this.#pipeline(tokens))
    } else choice.hasElse = true
  }

  #end(tokens: Tokens): void {
    const { at } = tokens.take()
    if (this.#open.pop() === undefined) throw new TemplateError('{{end}} has no {{if}} before it', at)
  }

  #pipeline(tokens: Tokens): Expression {
    if (++this.#depth > DEEPEST) throw new TemplateError(`nested deeper than ${DEEPEST} levels`, tokens.next.at)
    let value = this.#command(tokens, undefined)
    while (tokens.next.kind === '|') {
      tokens.take()
      value = this.#command(tokens, value)
    }
    this.#depth--
    return value
  }

  /** Parses a function with its arguments, the last of which may come from before a `|`; or one operand. */
  #command(tokens: Tokens, piped: Expression | undefined): Expression {
    const first = tokens.next
    if (first.kind === 'word' && !isLiteral(first)) return this.#call(tokens, piped)
    if (piped !== undefined) throw new TemplateError('a function must follow |', first.at)
    return this.#operand(tokens)
  }

  #call(tokens: Tokens, piped: Expression | undefined): Expression {
    const { text: name, at } = tokens.take()
    const arity = templateFunctions.get(name)
    if (arity === undefined) throw new TemplateError(`there is no function ${name}`, at)
    const args: Expression[] = []
    while (isOperand(tokens.next)) args.push(this.#operand(tokens))
    if (piped !== undefined) args.push(piped)
    const [least, most] = arity
    if (args.length < least || args.length > most)
      throw new TemplateError(`${name} takes ${least === most ? least : `${least} to ${most}`} arguments`, at)
    return this.#pathOf(name, args) ?? { kind: 'call', name, args }
  }

  /** Converts `index .steps "fetch-data" "output"` to the path that it means: Go's names have no hyphens. */
  #pathOf(name: string, [of, ...keys]: readonly Expression[]): Path | undefined {
    if (name !== 'index' || of?.kind !== 'path') return undefined
    const names = keys.flatMap((key) => (key.kind === 'literal' && typeof key.value === 'string' ? [key.value] : []))
    if (names.length < keys.length) return undefined
    const path: Path = { ...of, steps: [...of.steps, ...names] }
    this.paths[this.paths.indexOf(of)] = path
    return path
  }

  #operand(tokens: Tokens): Expression {
    const token = tokens.take()
    switch (token.kind) {
      case 'fields':
        return this.#path(token)
      case 'literal':
        return { kind: 'literal', value: token.value as string | number }
      case 'word':
        if (isLiteral(token)) return { kind: 'literal', value: words.get(token.text) as boolean | null }
        throw new TemplateError(`put parentheses around ${token.text} and its arguments`, token.at)
      case '(':
        return this.#inParentheses(tokens, token)
      default:
        throw new TemplateError('a value is missing', token.at)
    }
  }

  #inParentheses(tokens: Tokens, { at }: Token): Expression {
    const of = this.#pipeline(tokens)
    const closing = tokens.take()
    if (closing.kind !== ')') throw new TemplateError('the parenthesis is not closed', at)
    const { next } = tokens
    if (next.kind !== 'fields' || next.at !== closing.at + 1) return of
    return { kind: 'member', of, steps: tokens.take().text.slice(1).split('.') }
  }

  #path({ text, at }: Token): Path {
    const [root = '', ...steps] = text.slice(1).split('.')
    if (!ROOTS.has(root)) throw new TemplateError(`.${root} is unknown: there are .params, .steps and .forEach`, at)
    const path: Path = { kind: 'path', root: root as Root, steps, at }
    this.paths.push(path)
    return path
  }
}

const words: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['nil', null],
])
const isLiteral = ({ text }: Token): boolean => words.has(text)
const isOperand = ({ kind }: Token): boolean =>
  kind === 'fields' || kind === 'literal' || kind === 'word' || kind === '('

/** A word, mark or literal inside an action. */
interface Token {
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
class Tokens {
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
    if (quoted !== undefined) return { kind: 'literal', text: quoted, value: parseQuoted(quoted, at), at }
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

function parseQuoted(text: string, at: number): string {
  try {
    return JSON.parse(text) as string
  } catch {
    throw new TemplateError('the text has an escape that JSON does not know', at)
  }
}
