import { canonicalYaml } from '../render/object/yaml.ts'

/** Puts a place into the template's text: gets the line on which it stands, gives what comes there instead. */
type Fill = (line: string, mark: string) => string

const MARK = /helm\d+place/g
const KEY = /^( *)([\w./-]+): helm\d+place$/
const SPREAD = /^( *)(?:- (helm\d+place)|helm\d+place: "")$/

/** In Helm's templates only what stands between braces is code: such braces in a text become the text that prints them. */
const escaped = (yaml: string) => yaml.replaceAll('{{', '{{ "{{" }}')

const indented = (text: string, spaces: string) =>
  text
    .split('\n')
    // A line that is code alone begins where it likes.
    .map((line) => (line.startsWith('{{-') ? line : spaces + line))
    .join('\n')

/**
 * Makes a Helm template of objects that have places for what Helm puts in: each is a string that stands in the object as
 * a value, a key or an item, and becomes code when the object is written.
 */
export class Template {
  readonly #fills = new Map<string, Fill>()

  #place(fill: Fill): string {
    const mark = `helm${this.#fills.size}place`
    this.#fills.set(mark, fill)
    return mark
  }

  /** A text: a scalar, which is quoted, or a part of one. */
  text(expression: string): string {
    return this.#place((line, mark) => {
      const isAll = new RegExp(`(?:: |- )${mark}$`).test(line)
      return line.replace(mark, () => (isAll ? `{{ ${expression} | quote }}` : `{{ ${expression} }}`))
    })
  }

  /** Code in place of a scalar, or of a part of one, as it is. */
  code(code: string): string {
    return this.#place((line, mark) => line.replace(mark, () => code))
  }

  /** A value of a key that is written only where the expression has one. */
  optional(expression: string): string {
    return this.#place((line) => {
      const [, spaces = '', key] = KEY.exec(line) ?? wrong(line)
      const depth = spaces.length + 2
      return `{{- with ${expression} }}\n${spaces}${key}:\n  ${spaces}{{- toYaml . | nindent ${depth} }}\n{{- end }}`
    })
  }

  /** Lines of code, as a key (`{[lines(…)]: ''}`) or an item; indented as these are. */
  lines(code: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return indented(code, spaces)
    })
  }

  /** The keys of a map that the expression gives, among other keys. */
  keys(expression: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return `{{- with ${expression} }}\n${spaces}{{- toYaml . | nindent ${spaces.length} }}\n{{- end }}`
    })
  }

  /** The objects as the text of a template. */
  write(documents: readonly object[]): string {
    return documents.map((document) => this.#filled(escaped(canonicalYaml(document)))).join('---\n')
  }

  #filled(yaml: string): string {
    const line = (text: string) =>
      (text.match(MARK) ?? []).reduce((now, mark) => (this.#fills.get(mark) ?? wrong(text))(now, mark), text)
    return yaml.split('\n').map(line).join('\n')
  }
}

function wrong(line: string): never {
  throw new TypeError(`no place for Helm's code: ${line}`)
}
