/**
 * Counts comments that begin with a bare clause (What, Whether, How …) instead of a sentence. It only reports: `node
 * check/comments.ts [FOLDER…]` lists them, `--count` only counts.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const CLAUSE = /^(What|Whether|How|Where|Who|Whose|When|Which|Of|If|By|From|To|With|Without)\b/

/** Returns the first words of each comment of a TypeScript source, with its line number. */
export function commentStarts(source: string): readonly { readonly line: number; readonly text: string }[] {
  const lines = source.split('\n')
  return lines.flatMap((text, index) => {
    const own = /^\s*(?:\/\*\*?|\/\/)\s*(.*)$/.exec(text)
    if (own === null) return []
    // The later lines of a run of `//` continue the sentence of the first.
    if (/^\s*\/\//.test(text) && /^\s*\/\//.test(lines[index - 1] ?? '')) return []
    const start = own[1] === '' ? (lines[index + 1] ?? '').replace(/^\s*\*\s?/, '') : (own[1] ?? '')
    return start === '' ? [] : [{ line: index + 1, text: start.replace(/\s*\*\/$/, '') }]
  })
}

/** Tells whether a comment begins with a clause that has no main clause before its first full stop or colon. */
export const isBareClause = (text: string): boolean => CLAUSE.test(text) && !/^[^.:;]*, [a-z]/.test(text)

if (import.meta.main) {
  const args = process.argv.slice(2)
  const folders = args.filter((arg) => !arg.startsWith('--'))
  const patterns = (
    folders.length === 0 ? ['bin', 'build', 'check', 'cli', 'console', 'crds', 'dataplane', 'operator'] : folders
  ).map((folder) => `${folder}/**/*.ts`)
  let all = 0
  let bare = 0
  for (const path of globSync(patterns, { cwd: root }).sort())
    for (const { line, text } of commentStarts(readFileSync(join(root, path), 'utf8'))) {
      all++
      if (!isBareClause(text)) continue
      bare++
      if (!args.includes('--count')) console.log(`${path}:${line}: ${text}`)
    }
  console.log(`${bare} of ${all} comments begin with a bare clause`)
}
