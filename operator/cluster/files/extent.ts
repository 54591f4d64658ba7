/** Levels that a document may nest: the API server takes far fewer in an object of ours. */
const DEEPEST = 200
/** Bytes that a document may have once its aliases are written out; the API server takes 1.5 MB of one object. */
const LARGEST = 16 * 1024 * 1024
/** What a node counts for besides its text. */
const NODE = 8

/**
 * What is too much about a document's value: nested too deeply, which one that holds itself always is, or too large once
 * its aliases are written out. Undefined where it is fit for use. Looks at no more than the bounds allow.
 */
export function excess(value: unknown): string | undefined {
  let bytes = 0
  const problem = (inner: unknown, depth: number): string | undefined => {
    bytes += NODE + (typeof inner === 'string' ? inner.length : 0)
    if (bytes > LARGEST) return `has more than ${LARGEST} bytes, its aliases written out`
    if (typeof inner !== 'object' || inner === null) return undefined
    if (depth === DEEPEST) return `nests deeper than ${DEEPEST} levels, or holds itself by an alias`
    for (const key of Object.keys(inner)) {
      bytes += key.length
      const found = problem((inner as Record<string, unknown>)[key], depth + 1)
      if (found !== undefined) return found
    }
    return undefined
  }
  return problem(value, 0)
}
