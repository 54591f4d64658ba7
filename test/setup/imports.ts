import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

/** Imports of our files, static and dynamic. */
const IMPORTS = /\b(?:from|import)\s*\(?\s*['"](\.[^'"]+\.ts)['"]/g

/** Returns the paths from the root of these files and of all our files that they reach, the nearest first. */
export type Reach = (files: readonly string[]) => Set<string>

/**
 * Reads each file below `root` only once.
 *
 * @param more returns further files, from the root, that a file needs, by its text and its path
 */
export function importReader(
  root: string,
  pattern = IMPORTS,
  more: (text: string, file: string) => readonly string[] = () => [],
): Reach {
  const read = new Map<string, readonly string[]>()
  const listTargets = (file: string): readonly string[] => {
    const known = read.get(file)
    if (known) return known
    const path = join(root, file)
    const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
    const imported = [...text.matchAll(pattern)].map(([, target]) =>
      relative(root, join(dirname(path), target as string)),
    )
    const targets = [...imported, ...more(text, file)].filter((target) => existsSync(join(root, target)))
    read.set(file, targets)
    return targets
  }
  return (files) => {
    const found = new Set(
      files.map((file) => relative(root, resolve(root, file))).filter((file) => existsSync(join(root, file))),
    )
    // Iterating over a set includes entries that are added meanwhile.
    for (const file of found) for (const target of listTargets(file)) found.add(target)
    return found
  }
}

/** The import graph of this checkout. */
export const withImports: Reach = importReader(join(import.meta.dirname, '../..'))
