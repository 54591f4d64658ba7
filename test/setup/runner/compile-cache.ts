/**
 * Node's cache of the compiled modules of the tests, by their paths and texts:
 * https://nodejs.org/api/module.html#module-compile-cache. Node never removes unused modules, so that the folder is
 * emptied once it has grown.
 */
import { globSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../cache.ts'

/** One checkout has about 3,000 modules. */
const MOST_FILES = 30_000

/** Environment of test files and of their processes. */
export function compileCache(): Readonly<Record<string, string>> {
  const inherited = process.env['NODE_COMPILE_CACHE']
  if (inherited !== undefined) return { NODE_COMPILE_CACHE: inherited }
  const folder = join(cacheFolder(), 'compiled')
  if (globSync('*/*', { cwd: folder }).length > MOST_FILES) rmSync(folder, { recursive: true, force: true })
  return { NODE_COMPILE_CACHE: folder }
}
