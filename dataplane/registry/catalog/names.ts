/** A server's name: `namespace/name`, 3 to 200 characters (server.json schema 2025-12-11). */
const SERVER_NAME = /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/

export function isServerName(name: string): boolean {
  return name.length >= 3 && name.length <= 200 && SERVER_NAME.test(name)
}

/** Control characters, which would break lines and columns (PostgreSQL takes no U+0000 either). */
const CONTROL = /\p{Cc}/u

/**
 * Tells whether a text is a version: 1 to 255 characters, except `latest`, which is a query. Halves of surrogate pairs
 * would all be equal in the store.
 */
export function isVersion(version: string): boolean {
  const isText = version.isWellFormed() && !CONTROL.test(version)
  return isText && version !== '' && !isLonger(version, 255) && version !== 'latest'
}

/** Removes U+0000, which PostgreSQL stores in no text, and halves of surrogate pairs, which UTF-8 can't hold. */
export function printable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

export function isLonger(text: string, most: number): boolean {
  return text.length > most && Array.from(text).length > most
}
