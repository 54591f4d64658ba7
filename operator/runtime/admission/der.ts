/** The ASN.1 types that a certificate needs, in the distinguished encoding rules (ITU-T X.690). */

function encodeLength(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes)
  const hex = bytes.toString(16)
  const digits = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.of(0x80 | digits.length), digits])
}

/** Encodes any type: its tag (one byte) and its contents. */
export function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag), encodeLength(content.length), content])
}

export const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts)
export const setOf = (part: Buffer): Buffer => tagged(0x31, part)
export const octets = (bytes: Buffer): Buffer => tagged(0x04, bytes)
export const utf8 = (text: string): Buffer => tagged(0x0c, Buffer.from(text))
export const yes: Buffer = tagged(0x01, Buffer.of(0xff))

/** Encodes an integer: a number up to 127, or the positive one that the bytes hold. */
export function integer(value: number | Buffer): Buffer {
  const bytes = typeof value === 'number' ? Buffer.of(value) : value
  return tagged(0x02, (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes)
}

/** @param unused bits at the end of the last byte that don't count */
export const bits = (bytes: Buffer, unused = 0): Buffer => tagged(0x03, Buffer.of(unused), bytes)

/** @param dotted an object identifier, as `2.5.29.15` */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const base128 = (value: number): number[] => {
    const digits = [value & 0x7f]
    for (let left = Math.floor(value / 128); left > 0; left = Math.floor(left / 128))
      digits.unshift((left & 0x7f) | 0x80)
    return digits
  }
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

/** Encodes a time in whole seconds, the year in two digits until 2049 (RFC 5280, section 4.1.2.5). */
export function time(date: Date): Buffer {
  const digits = `${date
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replace(/\D/g, '')}Z`
  return date.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits))
}
