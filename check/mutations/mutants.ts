/** Makes mutants: copies of a source with one small mistake. */
import { stripTypeScriptTypes } from 'node:module'

export const KINDS = ['a comparison turned round', 'a check removed', 'an await dropped', 'a bound doubled'] as const

export interface Mutant {
  readonly kind: (typeof KINDS)[number]
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  /** The offset from the file's beginning. */
  readonly start: number
  readonly before: string
  readonly after: string
}

const TURNED: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '>=',
  '>=': '<',
  '>': '<=',
  '<=': '>',
}

/** Constants in capitals, and fields whose names denote bounds. */
const BOUND = /\b(?:const [A-Z][A-Z0-9_]* = |(?:max|most|limit|timeout)\w*: )(?<number>\d[\d_]*)(?![\w.])/g

/** Returns all mutants of a source; none if its types can't be stripped. */
export function makeMutants(file: string, source: string): Mutant[] {
  const code = blankCode(source)
  if (code === undefined) return []
  const mutant = (kind: Mutant['kind'], start: number, before: string, after: string): Mutant => ({
    kind,
    file,
    line: source.slice(0, start).split('\n').length,
    start,
    before,
    after,
  })
  const found = [
    ...matches(code, /(?<= )(?:[!=]==|[<>]=?)(?= )/g, (at, text) =>
      mutant('a comparison turned round', at, text, TURNED[text] as string),
    ),
    ...matches(code, /\bif (?=\()/g, (at) => {
      const end = findClosingBracket(code, at + 3)
      const guards = end !== undefined && /^\s*(?:return|throw|continue|break)\b/.test(code.slice(end))
      return guards ? mutant('a check removed', at, source.slice(at, end), 'if (false)') : undefined
    }),
    ...matches(code, /(?<!for )\bawait (?!using\b)/g, (at, text) => mutant('an await dropped', at, text, '')),
    ...[...code.matchAll(BOUND)].map(({ index, 0: whole, groups }) => {
      const number = groups?.['number'] as string
      const after = String(2 * Number(number.replaceAll('_', '')))
      return mutant('a bound doubled', index + whole.length - number.length, number, after)
    }),
  ]
  return found.filter(({ before, after }) => before !== after)
}

function matches(
  code: string,
  pattern: RegExp,
  mutant: (at: number, text: string) => Mutant | undefined,
): readonly Mutant[] {
  return [...code.matchAll(pattern)].flatMap(({ index, 0: text }) => mutant(index, text) ?? [])
}

export const applyMutant = (source: string, { start, before, after }: Mutant): string =>
  source.slice(0, start) + after + source.slice(start + before.length)

export function parses(source: string): boolean {
  try {
    stripTypeScriptTypes(source)
    return true
  } catch {
    return false
  }
}

/** Finds the same mutant in another state of its file; undefined if its line is missing, or not unique in both. */
export function mutantIn(other: string, source: string, mutant: Mutant): Mutant | undefined {
  if (other === source) return mutant
  const from = source.lastIndexOf('\n', mutant.start - 1) + 1
  const end = source.indexOf('\n', mutant.start + mutant.before.length)
  const text = source.slice(from, end < 0 ? undefined : end)
  const at = findOnlyIndex(other, text)
  if (at === undefined || findOnlyIndex(source, text) === undefined) return undefined
  return { ...mutant, start: at + mutant.start - from, line: other.slice(0, at).split('\n').length }
}

function findOnlyIndex(text: string, part: string): number | undefined {
  const at = text.indexOf(part)
  return at >= 0 && text.indexOf(part, at + 1) < 0 ? at : undefined
}

/** Blanks types, comments, texts and patterns, and keeps each character's place; undefined if that fails. */
function blankCode(source: string): string | undefined {
  let stripped: string
  try {
    stripped = stripTypeScriptTypes(source)
  } catch {
    return undefined
  }
  if (stripped.length !== source.length) return undefined
  const blankText = (text: string) => text.replace(/[^\n]/g, ' ')
  return stripped.replace(
    /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`|(?<=[(,=:[!&|?{};\n] *)\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/g,
    blankText,
  )
}

/** Returns the index behind the bracket that closes the one at `at`. */
function findClosingBracket(code: string, at: number): number | undefined {
  let depth = 0
  for (let index = at; index < code.length; index++) {
    if (code[index] === '(') depth += 1
    if (code[index] === ')' && (depth -= 1) === 0) return index + 1
  }
  return undefined
}
