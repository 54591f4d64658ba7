import { readFileSync, statSync } from 'node:fs'

/** Returns the file’s content, without surrounding white space. Throws an Error that names the file, never its content. */
export type ReadSecretFile = () => string

/** A value is used this long before the file is checked again: a rotated secret is in use within a second. */
const CHECK_EVERY_MS = 500

/**
 * Reads a secret, a token or a CA bundle from a mounted file that may change. The content is cached as long as the file
 * is the same, which is checked at most every 500 ms. An unreadable file is an error at once: a removed secret must not
 * stay in use.
 */
export function secretFile(path: string): ReadSecretFile {
  let value = ''
  let stamp = ''
  let checkedAt = Number.NEGATIVE_INFINITY

  return function readSecretFile() {
    const now = performance.now()
    if (now - checkedAt < CHECK_EVERY_MS) return value
    try {
      const { ino, size, mtimeMs, ctimeMs } = statSync(path)
      const found = `${ino}:${size}:${mtimeMs}:${ctimeMs}`
      if (found !== stamp) {
        value = readFileSync(path, 'utf8').trim()
        stamp = found
      }
    } catch (error) {
      checkedAt = Number.NEGATIVE_INFINITY
      throw new Error(`the file ${path} can’t be read (${(error as NodeJS.ErrnoException).code})`, { cause: error })
    }
    checkedAt = now
    return value
  }
}
