function distance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const substituted = (previous[column - 1] ?? 0) + (left[row - 1] === right[column - 1] ? 0 : 1)
      current.push(Math.min(substituted, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[right.length] ?? 0
}

/** Returns the candidate that a mistyped word most likely meant, if at most a third of its letters differ. */
export function closest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const differing = distance(word.toLowerCase(), candidate.toLowerCase())
    if (differing < least && differing <= Math.max(1, Math.floor(candidate.length / 3))) {
      best = candidate
      least = differing
    }
  }
  return best
}
