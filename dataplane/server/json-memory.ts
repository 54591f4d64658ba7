/** The memory of a value beside the text of its strings and names: V8 needs 16 to 56 bytes. */
const VALUE_BYTES = 48

/** Estimates the bytes that a parsed JSON value takes in memory: many times its text if it has many small parts. */
export function jsonMemory(value: unknown): number {
  let bytes = 0
  // The walk goes level by level: a recursive function could not walk every value that can be parsed.
  for (let level: readonly unknown[] = [value]; level.length > 0; ) {
    const below: unknown[] = []
    for (const part of level) {
      bytes += VALUE_BYTES + textLength(part)
      if (typeof part === 'object' && part !== null) for (const member of Object.values(part)) below.push(member)
    }
    level = below
  }
  return bytes
}

function textLength(part: unknown): number {
  if (typeof part === 'string') return part.length
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return 0
  return Object.keys(part).reduce((sum, { length }) => sum + length, 0)
}
