import { readFileSync, statSync } from 'node:fs'

/** Gives what is in the file now, without surrounding white space. Throws an Error that names the file, never its content. */
export type ReadSecretFile = () => string

/** How long a value may be used without a look at the file: secrets rotate without a restart, and within a second. */
const LOOK_EVERY_MS = 500

/**
 * Reads a secret, a token or a CA bundle that is mounted as a file and may change while we run. The content is kept
 * as long as the file is the same (a Kubernetes volume swaps a link, so inode and time change), and the file is looked
 * at again at most every 500 ms, so that it may be called on each request. An unreadable file is an error at once:
 * a secret that was taken away must not go on being used.
 */
export function secretFile(path: string): ReadSecretFile {
  let value = ''
  let stamp = ''
  let lookedAt = Number.NEGATIVE_INFINITY

  return function readSecretFile() {
    const now = performance.now()
    if (now - lookedAt < LOOK_EVERY_MS) return value
    try {
      const { ino, size, mtimeMs, ctimeMs } = statSync(path)
      const found = `${ino}:${size}:${mtimeMs}:${ctimeMs}`
      if (found !== stamp) {
        value = readFileSync(path, 'utf8').trim()
        stamp = found
      }
    } catch (error) {
      lookedAt = Number.NEGATIVE_INFINITY
      throw new Error(`the file ${path} can’t be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
    }
    lookedAt = now
    return value
  }
}
