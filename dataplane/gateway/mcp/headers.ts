import { PublicError } from '../../server/errors.ts'

/** Header values of the modern era: plain visible ASCII, or `=?base64?…?=` of UTF-8 (2026-07-28, transports). */

const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

/** The value as it may stand in a header. */
export function encodeHeaderValue(value: string): string {
  if (PLAIN.test(value) && !looksEncoded(value)) return value
  return `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`
}

/** The value that a header stands for. Throws `header_mismatch` for bad characters and bad Base64. */
export function decodeHeaderValue(header: string, name: string): string {
  const encoded = ENCODED.exec(header)
  if (encoded !== null) {
    const base64 = encoded[1] as string
    const bytes = Buffer.from(base64, 'base64')
    // Buffer skips what it can't read: only what encodes back to the same text was Base64.
    if (bytes.toString('base64') !== base64) throw mismatch(`${name} holds bad Base64.`)
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    } catch {
      throw mismatch(`${name} holds Base64 of bytes that are not UTF-8.`)
    }
  }
  if (looksEncoded(header)) throw mismatch(`${name} holds bad Base64.`)
  if (header !== '' && !PLAIN.test(header)) throw mismatch(`${name} holds characters that need Base64.`)
  return header
}

const looksEncoded = (value: string): boolean => value.startsWith('=?base64?') && value.endsWith('?=')

export const mismatch = (message: string): PublicError => new PublicError('header_mismatch', { message })
