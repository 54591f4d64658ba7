import { hash } from 'node:crypto'

/**
 * The name of a user in our tokens, a UUID (RFC 9562 section 5.8): the same for the same user of the same provider, at
 * every replica and after every restart, another one for every other. It is made from the issuer, the provider's name
 * and issuer, and the user's name there, each with its length, so that no two of them run into each other.
 */
export function subjectOf(...parts: readonly string[]): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('')
  const hex = hash('sha256', `portico-subject\0${text}`, 'hex').slice(0, 32)
  const variant = ((Number.parseInt(hex[16] as string, 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, variant + hex.slice(17, 20), hex.slice(20)].join(
    '-',
  )
}
