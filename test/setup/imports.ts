import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Paths, from the repository's root, of these files and of all of ours that they import, directly or not. */
export function withImports(files: readonly string[]): Set<string> {
  const found = new Set<string>()
  const waiting = files.map((file) => resolve(root, file))
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const file = relative(root, path)
    if (found.has(file) || !existsSync(path)) continue
    found.add(file)
    const text = readFileSync(path, 'utf8')
    for (const [, target] of text.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+\.ts)['"]/g))
      waiting.push(join(dirname(path), target as string))
  }
  return found
}
