/** Returns the value below which a share (0 to 1) of these sorted values lies; NaN if there are none. */
export const percentile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN

/** Returns the median; NaN if there are no values. */
export function median(values: ArrayLike<number>): number {
  const sorted = Float64Array.from(values).sort()
  const middle = (sorted.length - 1) / 2
  const [below, above] = [sorted[Math.floor(middle)], sorted[Math.ceil(middle)]]
  return ((below ?? Number.NaN) + (above ?? Number.NaN)) / 2
}
