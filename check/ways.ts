/**
 * Checks the code paths ("ways") in docs/architecture.md: a heading `### The way of …`, the number of files that run
 * (`Measured: 64 files`, compared with V8's counts by test/check/ways.test.ts), and a list whose items begin with a
 * path. Each file must exist and be imported by an earlier one.
 */
import { existsSync, readFileSync } from 'node:fs'
import { type Imports, readImports } from './imports.ts'

/** A way: its heading, its files in order, and the number of files that run on it; undefined if that is not stated. */
export interface Way {
  readonly name: string
  readonly files: readonly string[]
  readonly measured: number | undefined
}

/** Reads the ways that a Markdown text lists. */
export function readWays(text: string): readonly Way[] {
  return text
    .split(/^#+ /m)
    .filter((section) => section.startsWith('The way of '))
    .map((section) => {
      const [, measured] = /^Measured: (\d+) files/m.exec(section) ?? []
      return {
        name: section.slice('The way of '.length, section.indexOf('\n')),
        files: [...section.matchAll(/^\d+\. `([^`]+\.ts)`/gm)].map((match) => match[1] as string),
        measured: measured === undefined ? undefined : Number(measured),
      }
    })
}

/** Returns the problems of a way, a line each. */
export function wrongSteps({ name, files, measured }: Way, imports: Imports): readonly string[] {
  const wrong: string[] = []
  if (files.length === 0) wrong.push(`the way of ${name} has no files`)
  if (measured === undefined) wrong.push(`the way of ${name} does not say how many files run on it`)
  for (const [index, file] of files.entries()) {
    if (!imports.has(file)) wrong.push(`the way of ${name}: there is no ${file}`)
    else if (files.indexOf(file) !== index) wrong.push(`the way of ${name}: ${file} is listed twice`)
    else if (index > 0 && !files.slice(0, index).some((earlier) => imports.get(earlier)?.includes(file)))
      wrong.push(`the way of ${name}: no file before ${file} imports it`)
  }
  return wrong
}

if (import.meta.main) {
  const root = new URL('..', import.meta.url).pathname
  const document = new URL('../docs/architecture.md', import.meta.url)
  const ways = existsSync(document) ? readWays(readFileSync(document, 'utf8')) : []
  const imports = readImports(root)
  const wrong = ways.flatMap((way) => wrongSteps(way, imports))
  if (ways.length === 0) wrong.push('docs/architecture.md lists no way')
  for (const line of wrong) console.error(line)
  process.exitCode = wrong.length === 0 ? 0 : 1
}
