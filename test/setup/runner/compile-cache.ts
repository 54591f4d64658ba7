/**
 * Node's cache of the compiled modules of the tests, by their paths and texts:
 * https://nodejs.org/api/module.html#module-compile-cache. Node never removes unused modules, so that the folder is
 * emptied once it has grown.
 */
import { globSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, unfinishedFolder } from '../cache.ts'

/** One checkout has about 3,000 modules. */
const MOST_FILES = 30_000

/** Environment of test files and of their processes. */
export function compileCache(mostFiles = MOST_FILES): Readonly<Record<string, string>> {
  const inherited = process.env['NODE_COMPILE_CACHE']
  if (inherited !== undefined) return { NODE_COMPILE_CACHE: inherited }
  const folder = join(cacheFolder(), 'compiled')
  if (globSync('*/*', { cwd: folder }).length > mostFiles) removeFolder(folder)
  return { NODE_COMPILE_CACHE: folder }
}

/** Removes a folder in which other processes may be writing, or which they may be removing, too. */
function removeFolder(folder: string): void {
  mkdirSync(unfinishedFolder(), { recursive: true })
  const away = join(unfinishedFolder(), `compiled-${process.pid}`)
  try {
    renameSync(folder, away)
  } catch (error) {
    // Another process has just removed it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  rmSync(away, { recursive: true, force: true, maxRetries: 5 })
}
