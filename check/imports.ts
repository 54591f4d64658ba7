/** Reads the import graph of the sources: relative imports, of values and of types, static and dynamic. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

export type Imports = ReadonlyMap<string, readonly string[]>

export const findImports = (file: string, source: string): readonly string[] =>
  [...source.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map((match) =>
    normalize(join(dirname(file), match[1] as string)),
  )

/** Reads the imports of all files below the rooms. */
export function readImports(root: string): Imports {
  const files = globSync('{cli,console,crds,operator,dataplane}/**/*.ts', { cwd: root }).sort()
  return new Map(files.map((file) => [file, findImports(file, readFileSync(join(root, file), 'utf8'))]))
}

export const inside = (path: string, folder: string): boolean => path.startsWith(`${folder}/`)
