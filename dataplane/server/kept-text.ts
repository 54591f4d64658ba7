/** The largest body that is sent as a string, so that Node sends head and body in one write. */
export const ONE_WRITE = 16 * 1024
/** Smaller bodies are converted faster than they are found in the cache. */
const SMALL = 512

/** The texts of bytes that are sent repeatedly, for as long as these live. */
const texts = new WeakMap<Buffer, string>()

/** Returns bytes as Latin-1. The text is cached if that saves time. */
export function latin1(bytes: Buffer): string {
  if (bytes.length < SMALL) return bytes.toString('latin1')
  let text = texts.get(bytes)
  if (text === undefined) texts.set(bytes, (text = bytes.toString('latin1')))
  return text
}

/** Returns the memory of bytes that are sent repeatedly, with their cached text. */
export const keptBytes = ({ length }: Buffer): number => (length >= SMALL && length <= ONE_WRITE ? 2 * length : length)
