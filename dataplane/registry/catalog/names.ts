/** A server's name: `namespace/name`, 3 to 200 characters (server.json schema 2025-12-11). */
const SERVER_NAME = /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/

export function isServerName(name: string): boolean {
  return name.length >= 3 && name.length <= 200 && SERVER_NAME.test(name)
}

/** Text that stays in its line and column: no control character (PostgreSQL takes no U+0000 either). */
const CONTROL = /\p{Cc}/u

/**
 * A version: any text of 1 to 255 characters but `latest`, which is a question and not a version. Halves of characters
 * would all be the same one in the store.
 */
export function isVersion(version: string): boolean {
  const isText = version.isWellFormed() && !CONTROL.test(version)
  return isText && version !== '' && !isLonger(version, 255) && version !== 'latest'
}

/** Without U+0000, which PostgreSQL stores in no text, and without halves of characters, which no UTF-8 has. */
export function printable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

/** Whether a text has more characters (code points, as a schema counts them) than so many. */
export function isLonger(text: string, most: number): boolean {
  return text.length > most && Array.from(text).length > most
}
