import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** What set-up makes is kept in the user's cache folder, under a name that holds the digest of what it is made from. */
export const cacheFolder = (): string => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'portico')

/** The first `digits` hexadecimal digits of the SHA-256 of these files. */
export function digestOf(files: readonly string[], digits: number): string {
  const digest = createHash('sha256')
  for (const file of files) digest.update(readFileSync(file))
  return digest.digest('hex').slice(0, digits)
}

/** Where things are made before they are moved to their place whole. */
const unfinished = () => join(cacheFolder(), 'unfinished')

/** A new folder on the file system of the cache; to be called by the holder of the lock alone. */
export function workFolder(): string {
  mkdirSync(unfinished(), { recursive: true })
  return mkdtempSync(join(unfinished(), 'of-'))
}

/** Removes what a set-up that was killed has left; to be called by the holder of the lock alone. */
export const removeUnfinished = (): void => rmSync(unfinished(), { recursive: true, force: true, maxRetries: 5 })
