/** Largest body that is sent as a string, so that Node sends head and body in one write. */
export const ONE_WRITE = 16 * 1024
/** What is smaller is converted faster than it is found here. */
const SMALL = 512

/** Texts of bytes that are sent again and again, for as long as these live. */
const texts = new WeakMap<Buffer, string>()

/** Bytes as Latin-1, converted once where that is worth it. */
export function latin1(bytes: Buffer): string {
  if (bytes.length < SMALL) return bytes.toString('latin1')
  let text = texts.get(bytes)
  if (text === undefined) texts.set(bytes, (text = bytes.toString('latin1')))
  return text
}

/** What bytes that are sent again and again take, with the text that is kept of them. */
export const keptBytes = ({ length }: Buffer): number => (length >= SMALL && length <= ONE_WRITE ? 2 * length : length)
