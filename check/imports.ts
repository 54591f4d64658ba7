/** Reads the import graph of the sources: relative imports, of values and of types, static and dynamic. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** The imported files by importing file; paths are relative to the project. */
export type Imports = ReadonlyMap<string, readonly string[]>

/** Returns the files of the project that a file's text imports. */
export const importsOf = (file: string, source: string): readonly string[] =>
  [...source.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map((match) =>
    normalize(join(dirname(file), match[1] as string)),
  )

/** Reads the imports of all files below the rooms. */
export function readImports(root: string): Imports {
  const files = globSync('{cli,console,crds,operator,dataplane}/**/*.ts', { cwd: root }).sort()
  return new Map(files.map((file) => [file, importsOf(file, readFileSync(join(root, file), 'utf8'))]))
}

/** Tells whether a file or folder lies below a folder. */
export const inside = (path: string, folder: string): boolean => path.startsWith(`${folder}/`)
