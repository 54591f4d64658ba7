/** Returns a generator of numbers from 0 to 1, the same for the same seed (Mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Returns a generator of whole numbers below `most`, the same for the same seed. */
export function createNumbers(seed: number): (most: number) => number {
  const random = createRandom(seed)
  return (most) => Math.floor(random() * most)
}
