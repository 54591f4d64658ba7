/** What is measured of one process of a checkout: gives the cost of a turn, in any unit, lower is better. */
export type Measure = () => Promise<number>

/**
 * A checkout beside another, each by the same number of processes: one and the same program costs up to a tenth more in
 * one process than in the next, for as long as that lives.
 */
export interface Pair {
  readonly before: readonly Measure[]
  readonly after: readonly Measure[]
}

const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((one, other) => one - other)
  const half = sorted.length / 2
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(half)] as number)
    : ((sorted[half - 1] as number) + (sorted[half] as number)) / 2
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/**
 * Measures all in turn, so that what is compared is of the same seconds, and prints the mean of the processes' medians of
 * either side, their ratio, and how far the processes of a side lie apart. Who goes first changes with each turn.
 */
export async function compare(name: string, unit: string, turns: number, pair: Pair): Promise<void> {
  const costs = { before: pair.before.map((): number[] => []), after: pair.after.map((): number[] => []) }
  for (let turn = 0; turn < turns; turn++)
    for (const index of pair.before.keys())
      for (const side of turn % 2 === 0 ? (['before', 'after'] as const) : (['after', 'before'] as const))
        costs[side][index]?.push(await (pair[side][index] as Measure)())
  const medians = { before: costs.before.map(median), after: costs.after.map(median) }
  const base = mean(medians.before)
  const shown = (values: readonly number[]) => mean(values).toFixed(1).padStart(9)
  const range = (values: readonly number[]) =>
    `${(Math.min(...values) / base).toFixed(3)} to ${(Math.max(...values) / base).toFixed(3)}`
  const spread =
    base > 0 && medians.before.length > 1
      ? ` (${medians.before.length} processes: ${range(medians.before)}, ${range(medians.after)})`
      : ''
  console.log(
    `${name.padEnd(36)} before ${shown(medians.before)} ${unit}  after ${shown(medians.after)} ${unit}  ` +
      `ratio ${(mean(medians.after) / base).toFixed(3)}${spread}`,
  )
}

/** Opens so many of either side, in turn. */
export async function openBoth<T>(
  count: number,
  open: (side: 'before' | 'after', index: number) => Promise<T>,
): Promise<{ readonly before: readonly T[]; readonly after: readonly T[] }> {
  const before: T[] = []
  const after: T[] = []
  for (let index = 0; index < count; index++) {
    before.push(await open('before', index))
    after.push(await open('after', index))
  }
  return { before, after }
}
