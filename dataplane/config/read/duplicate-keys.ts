import { isMap, isNode, isScalar, isSeq } from 'yaml'

/** Returns the offsets of repeated keys in a YAML document of bounded nesting, in order. Linear time. */
export function duplicateKeys(node: unknown, found: number[] = []): readonly number[] {
  if (isSeq(node)) for (const item of node.items) duplicateKeys(item, found)
  if (!isMap(node)) return found
  const known = new Set<unknown>()
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? key.value : key
    if (known.has(name) && isNode(key)) found.push(key.range?.[0] ?? 0)
    known.add(name)
    duplicateKeys(value, found)
  }
  return found
}
