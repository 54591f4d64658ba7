/** The import graph of the sources: relative imports, of values and of types, static and dynamic. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Files by the files that they import; paths are relative to the project. */
export type Imports = ReadonlyMap<string, readonly string[]>

/** Files that one file's text imports from the project. */
export const importsOf = (file: string, source: string): readonly string[] =>
  [...source.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g)].map((match) =>
    normalize(join(dirname(file), match[1] as string)),
  )

/** What all files below the rooms import. */
export function readImports(root: string): Imports {
  const files = globSync('{cli,crds,operator,dataplane}/**/*.ts', { cwd: root }).sort()
  return new Map(files.map((file) => [file, importsOf(file, readFileSync(join(root, file), 'utf8'))]))
}

/** Whether a file or folder lies below a folder. */
export const inside = (path: string, folder: string): boolean => path.startsWith(`${folder}/`)
