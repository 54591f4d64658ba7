/** A server's name: `namespace/name`, 3 to 200 characters (server.json schema 2025-12-11). */
const SERVER_NAME = /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/

export function isServerName(name: string): boolean {
  return name.length >= 3 && name.length <= 200 && SERVER_NAME.test(name)
}

/** Text that stays in its line and column: no control character (PostgreSQL takes no U+0000 either). */
const CONTROL = /\p{Cc}/u

/** A version: any text of 1 to 255 characters but `latest`, which is a question and not a version. */
export function isVersion(version: string): boolean {
  return version !== '' && !isLonger(version, 255) && version !== 'latest' && !CONTROL.test(version)
}

/** Whether a text has more characters (code points, as a schema counts them) than so many. */
export function isLonger(text: string, most: number): boolean {
  return text.length > most && Array.from(text).length > most
}
