/** The hits of one search, and its weight, from 0 to 1. */
interface Found {
  readonly hits: readonly Hit[]
  readonly weight: number
}

/** A tool that was found: its number in the list, and its score; the best has the highest. */
export interface Hit {
  readonly tool: number
  readonly score: number
}

/**
 * Combines the hits of several searches by their scores (`relative`), the best first. Tools found only by searches
 * without weight are left out.
 */
export function fuse(searches: readonly Found[], most: number): readonly number[] {
  const scores = new Map<number, number>()
  for (const { hits, weight } of searches)
    if (weight > 0) for (const { tool, score } of hits) scores.set(tool, (scores.get(tool) ?? 0) + weight * score)
  return [...scores]
    .sort(([a, score], [b, other]) => other - score || a - b)
    .slice(0, most)
    .map(([tool]) => tool)
}

/** Scales the scores of hits, the best first, to fractions of the best one. */
export function relative(hits: readonly Hit[]): readonly Hit[] {
  const best = hits[0]?.score ?? 0
  return best > 0 ? hits.map(({ tool, score }) => ({ tool, score: score / best })) : hits
}
