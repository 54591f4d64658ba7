export const REDACTED = '[redacted]'

const BEARER = /\b(?:Bearer|Basic) +[\w.~+/-]{8,}=*/gi
/** Three parts with dots between. It begins where a word does, so that a long word is scanned once. */
const DOTTED = /(?<![\w-])[\w-]+\.[\w-]+\.[\w-]*/g
const TOKEN = /eyJ[\w-]{8,}\./

/** A text without what may have slipped into it: bearer and basic credentials, JSON Web Tokens. Linear. */
export function withoutCredentials(text: string): string {
  const plain = text.replace(BEARER, REDACTED)
  return plain.includes('eyJ') ? plain.replace(DOTTED, (word) => (TOKEN.test(word) ? REDACTED : word)) : plain
}
