import { hash } from 'node:crypto'

/**
 * Returns a user's subject in our tokens, a UUID (RFC 9562 section 5.8). The same user of the same provider gets the
 * same subject at every replica and after every restart; every other user gets a different one. It is derived from this
 * issuer, the provider's name and issuer, and the user's name there, each with its length, so that no two combinations
 * collide.
 */
export function deriveSubject(
  ...parts: readonly [issuer: string, provider: string, home: string, name: string]
): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join('')
  const hex = hash('sha256', `portico-subject\0${text}`, 'hex').slice(0, 32)
  const variant = ((Number.parseInt(hex[16] as string, 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, variant + hex.slice(17, 20), hex.slice(20)].join(
    '-',
  )
}

/** The longest name of a user at a provider, in characters. Longer ones are ignored or refused. */
export const LONGEST_NAME = 256

/** Returns a user's name at a provider: a text, or an exact number; undefined for any other value. */
export function providerSubject(value: unknown): string | undefined {
  // Numbers beyond 2^53 lose digits, so two users could get the same name.
  if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value)
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_NAME ? value : undefined
}
