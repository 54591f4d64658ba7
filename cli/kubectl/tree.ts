import type { Branch } from '../../console/facts/tree.ts'
import { alignColumns } from '../command.ts'

/** Puts an untrusted text on one line, without characters that would control a terminal. */
export const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim()

function* formatLines({ text, branches }: Branch, lead: string, below: string): Generator<string> {
  yield `${lead}${printable(text)}`
  for (const [index, branch] of branches.entries()) {
    const isLast = index === branches.length - 1
    yield* formatLines(branch, `${below}${isLast ? '└─ ' : '├─ '}`, `${below}${isLast ? '   ' : '│  '}`)
  }
}

/** Formats trees as text, one after the other. */
export const treeText = (trees: readonly Branch[]): string =>
  trees
    .flatMap((tree) => [...formatLines(tree, '', '')])
    .map((line) => `${line}\n`)
    .join('')

/** Formats rows as columns; the first row is the head. */
export function columns(rows: readonly (readonly string[])[]): string {
  const lines = alignColumns(
    rows.map((row) => row.map(printable)),
    '',
  )
  return lines.map((line) => `${line}\n`).join('')
}
