import { withoutUrlSecrets } from './check/url.ts'

export const REDACTED = '[redacted]'

const BEARER = /\b(?:Bearer|Basic) +[\w.~+/-]{8,}=*/gi
/** Three parts with dots between. It begins at the start of a word, so that a long word is scanned once. */
const DOTTED = /(?<![\w-])[\w-]+\.[\w-]+\.[\w-]*/g
const TOKEN = /eyJ[\w-]{8,}\./

/** Removes leaked credentials from a text: bearer and basic credentials, JSON Web Tokens. Takes linear time. */
export function withoutCredentials(text: string): string {
  const plain = text.replace(BEARER, REDACTED)
  return plain.includes('eyJ') ? plain.replace(DOTTED, (word) => (TOKEN.test(word) ? REDACTED : word)) : plain
}

/** Removes leaked credentials and the secret parts of URLs from a text that people read. Takes linear time. */
export const maskSecrets = (text: string): string => withoutUrlSecrets(withoutCredentials(text))
