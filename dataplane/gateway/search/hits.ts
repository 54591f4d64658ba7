/** What was found in one way, and the weight that this way has, of 0 to 1. */
interface Found {
  readonly hits: readonly Hit[]
  readonly weight: number
}

/** A tool that was found: its number in the list, and how well it fits; the best has the highest. */
export interface Hit {
  readonly tool: number
  readonly score: number
}

/**
 * The tools of several searches by their scores in all of them, the best first. What one search has not found has no
 * score there; what only those without weight have found is left out. Scores are of 0 to 1 (`relative`).
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

/** The scores of hits, of which the first is the best, as parts of the best one. */
export function relative(hits: readonly Hit[]): readonly Hit[] {
  const best = hits[0]?.score ?? 0
  return best > 0 ? hits.map(({ tool, score }) => ({ tool, score: score / best })) : hits
}
