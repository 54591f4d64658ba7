import type { Finding } from '../load.ts'

/** Returns a finding for each repeated key. `field` is the key's pointer inside an item. */
export function duplicates<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  pointer: string,
  field = '',
): readonly Finding[] {
  const first = new Map<string, number>()
  return items.flatMap((item, index) => {
    const key = keyOf(item)
    const earlier = first.get(key)
    if (earlier === undefined) {
      first.set(key, index)
      return []
    }
    return [{ pointer: `${pointer}/${index}${field}`, message: `is the same as ${pointer}/${earlier}${field}` }]
  })
}
