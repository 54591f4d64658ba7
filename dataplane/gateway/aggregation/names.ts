import { createHash } from 'node:crypto'

/** Names longer than this, or with other characters, break widely used clients and model APIs. */
const LONGEST = 64
const OTHER = /[^A-Za-z0-9_.-]/g
const DIGEST = 8

/**
 * The name as clients may be shown it: unchanged where it is short and plain; otherwise cut and cleaned, with a hash
 * of the whole, so that it stays the same whatever else is in the list.
 */
export function fitName(name: string): string {
  const plain = name.replace(OTHER, '_')
  return plain === name && name.length <= LONGEST ? name : withDigest(plain, name)
}

/** Another name for the tool, where `name` is taken: stable, since it depends on `origin` alone. */
export const otherName = (name: string, origin: string): string => withDigest(name, origin)

function withDigest(name: string, of: string): string {
  const digest = createHash('sha256').update(of).digest('hex').slice(0, DIGEST)
  return `${name.slice(0, LONGEST - DIGEST - 1)}_${digest}`
}
