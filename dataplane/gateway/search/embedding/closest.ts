import type { Hit } from '../hit.ts'

/**
 * The tools whose vectors are closest to another one, the closest first, at most so many and none further. Their scores
 * go from 1 for the closest to 0 for the furthest that is found: models differ in what is close, by words of the same
 * subject hardly ever beyond 0.5. All vectors are of unit length, so that the cosine of the angle between two is the sum
 * of their products; the distance is 1 less that, 0 to 2. Those of another number of numbers are passed over.
 */
export function closest(
  to: Float32Array,
  vectors: readonly (Float32Array | undefined)[],
  { most, furthest }: { readonly most: number; readonly furthest: number },
): readonly Hit[] {
  const near: { readonly tool: number; readonly distance: number }[] = []
  for (const [tool, vector] of vectors.entries()) {
    if (vector?.length !== to.length) continue
    const distance = 1 - product(to, vector)
    if (distance <= furthest) near.push({ tool, distance })
  }
  near.sort((a, b) => a.distance - b.distance || a.tool - b.tool)
  const found = near.slice(0, most)
  const [first, last] = [found[0]?.distance ?? 0, found.at(-1)?.distance ?? 0]
  return found.map(({ tool, distance }) => ({ tool, score: first === last ? 1 : (last - distance) / (last - first) }))
}

function product(one: Float32Array, other: Float32Array): number {
  let sum = 0
  for (let at = 0; at < one.length; at++) sum += (one[at] as number) * (other[at] as number)
  return sum
}
