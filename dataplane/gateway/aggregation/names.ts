import { createHash } from 'node:crypto'

/** The longest name. Longer names, or other characters, break widely used clients and model APIs. */
const LONGEST = 64
const OTHER = /[^A-Za-z0-9_.-]/g
const DIGEST = 8

/**
 * Returns a name that clients accept: unchanged if it is short and plain, otherwise cut and cleaned, with a hash of the
 * whole name, so that it does not depend on other names in the list.
 */
export function fitName(name: string): string {
  const plain = name.replace(OTHER, '_')
  return plain === name && name.length <= LONGEST ? name : withDigest(plain, name)
}

/** Returns another name for a tool whose `name` is already in use. It depends on `origin` only, so it is stable. */
export const otherName = (name: string, origin: string): string => withDigest(name, origin)

function withDigest(name: string, of: string): string {
  const digest = createHash('sha256').update(of).digest('hex').slice(0, DIGEST)
  return `${name.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}
