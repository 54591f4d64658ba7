import { LineCounter, parseDocument } from 'yaml'
import { ConfigError, type Finding } from '../load.ts'

export interface ConfigSource {
  readonly text: string
  readonly file: string | undefined
}

/** The value of a YAML text. Throws a ConfigError where it is none, or empty. */
export function valueOfYaml({ text, file }: ConfigSource): unknown {
  const { document, lineAt } = readYaml(text)
  const refuse = (findings: readonly Finding[]) =>
    new ConfigError(file === undefined ? findings : findings.map((finding) => ({ ...finding, file })))
  if (document.errors.length > 0)
    throw refuse(document.errors.map(({ message, pos }) => ({ pointer: '', message, line: lineAt(pos[0]) })))
  if (document.contents === null) throw refuse([{ pointer: '', message: 'the file is empty' }])
  try {
    return document.toJS()
  } catch (error) {
    // An alias that expands without end, or that refers to no anchor.
    throw refuse([{ pointer: '', message: (error as Error).message }])
  }
}

/** A text as a YAML document, and the line (from 1) of each offset in it. */
export function readYaml(text: string) {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false })
  return { document, lineAt: (offset: number) => lines.linePos(offset).line }
}
