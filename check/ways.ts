/**
 * The ways through the house that docs/architecture.md lists file by file: each is a heading `### The way of …` and a
 * list whose items begin with a path. Fails with a line for every file that is not there, that no earlier file of its way
 * imports, or that is one too many.
 */
import { existsSync, readFileSync } from 'node:fs'
import { type Imports, readImports } from './imports.ts'

/** A way: its heading, and its files in order. */
export interface Way {
  readonly name: string
  readonly files: readonly string[]
}

/** The most files of a way; one that is not named here may have any number. */
const MOST: Readonly<Record<string, number>> = { 'a tools/call': 25, 'a page of the catalog': 20 }

/** Ways that a Markdown text lists. */
export function waysOf(text: string): readonly Way[] {
  return text
    .split(/^#+ /m)
    .filter((section) => section.startsWith('The way of '))
    .map((section) => ({
      name: section.slice('The way of '.length, section.indexOf('\n')),
      files: [...section.matchAll(/^\d+\. `([^`]+\.ts)`/gm)].map((match) => match[1] as string),
    }))
}

/** What is wrong with a way, a line each. */
export function wrongSteps({ name, files }: Way, imports: Imports, most = MOST[name]): readonly string[] {
  const wrong: string[] = []
  if (files.length === 0) wrong.push(`the way of ${name} has no files`)
  if (most !== undefined && files.length > most)
    wrong.push(`the way of ${name} has ${files.length} files; at most ${most}`)
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
  const ways = existsSync(document) ? waysOf(readFileSync(document, 'utf8')) : []
  const imports = readImports(root)
  const wrong = ways.flatMap((way) => wrongSteps(way, imports))
  if (ways.length === 0) wrong.push('docs/architecture.md lists no way')
  for (const line of wrong) console.error(line)
  process.exitCode = wrong.length === 0 ? 0 : 1
}
