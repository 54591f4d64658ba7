/**
 * Node keeps the modules that the tests load, without their types and compiled, by their paths and texts:
 * https://nodejs.org/api/module.html#module-compile-cache. Modules that no test loads any more stay there, so that the
 * folder begins anew once it has grown.
 */
import { globSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../cache.ts'

/** One checkout has about 3,000. */
const MOST_FILES = 30_000

/** For the environment of test files, and of the processes that they start. */
export function compileCache(): Readonly<Record<string, string>> {
  const given = process.env['NODE_COMPILE_CACHE']
  if (given !== undefined) return { NODE_COMPILE_CACHE: given }
  const folder = join(cacheFolder(), 'compiled')
  if (globSync('*/*', { cwd: folder }).length > MOST_FILES) rmSync(folder, { recursive: true, force: true })
  return { NODE_COMPILE_CACHE: folder }
}
