import { canonicalYaml } from '../render/object/canonical.ts'

/** Puts code into the template's text: gets the line with the placeholder, returns its replacement. */
type Fill = (line: string, mark: string) => string

const MARK = /helm\d+place/g
const KEY = /^( *)([\w./-]+): helm\d+place$/
const SPREAD = /^( *)(?:- (helm\d+place)|helm\d+place: "")$/

/** Escapes text for a Helm template: braces become code that prints them. */
const escaped = (yaml: string) => yaml.replaceAll('{{', '{{ "{{" }}')

const indented = (text: string, spaces: string) =>
  text
    .split('\n')
    // A line with only code may begin at any column.
    .map((line) => (line.startsWith('{{-') ? line : spaces + line))
    .join('\n')

/**
 * Makes a Helm template from objects. A placeholder is a string in the object (value, key or item) that becomes code
 * when the object is written.
 */
export class Template {
  readonly #fills = new Map<string, Fill>()

  #place(fill: Fill): string {
    const mark = `helm${this.#fills.size}place`
    this.#fills.set(mark, fill)
    return mark
  }

  /** Returns a placeholder for a text: a scalar, which is quoted, or a part of one. */
  text(expression: string): string {
    return this.#place((line, mark) => {
      const isAll = new RegExp(`(?:: |- )${mark}$`).test(line)
      return line.replace(mark, () => (isAll ? `{{ ${expression} | quote }}` : `{{ ${expression} }}`))
    })
  }

  /** Returns a placeholder for code in place of a scalar or of a part of one, unquoted. */
  code(code: string): string {
    return this.#place((line, mark) => line.replace(mark, () => code))
  }

  /** Returns a placeholder for a value whose key is written only if the expression has a value. */
  optional(expression: string): string {
    return this.#place((line) => {
      const [, spaces = '', key] = KEY.exec(line) ?? wrong(line)
      const depth = spaces.length + 2
      return `{{- with ${expression} }}\n${spaces}${key}:\n  ${spaces}{{- toYaml . | nindent ${depth} }}\n{{- end }}`
    })
  }

  /** Returns a placeholder for lines of code, as a key (`{[lines(…)]: ''}`) or an item, with the same indent. */
  lines(code: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return indented(code, spaces)
    })
  }

  /** Returns a placeholder for the keys of a map from the expression, among other keys. */
  keys(expression: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return `{{- with ${expression} }}\n${spaces}{{- toYaml . | nindent ${spaces.length} }}\n{{- end }}`
    })
  }

  /** Writes the objects as the text of a template. */
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
