import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Set-up keeps its results in the user's cache folder, under a name with the digest of the inputs. */
export const cacheFolder = (): string => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'portico')

/** Returns the first `digits` hexadecimal digits of the SHA-256 of these files. */
export function hashFiles(files: readonly string[], digits: number): string {
  const digest = createHash('sha256')
  for (const file of files) digest.update(readFileSync(file))
  return digest.digest('hex').slice(0, digits)
}

/** The folder where results are made before they are moved to their final path atomically, and what is being removed. */
export const unfinishedFolder = () => join(cacheFolder(), 'unfinished')

/** Creates a folder on the file system of the cache. Only the holder of the lock may call it. */
export function workFolder(): string {
  mkdirSync(unfinishedFolder(), { recursive: true })
  return mkdtempSync(join(unfinishedFolder(), 'of-'))
}

/** Removes what killed set-ups have left. Only the holder of the lock may call it. */
export const removeUnfinished = (): void => rmSync(unfinishedFolder(), { recursive: true, force: true, maxRetries: 5 })
