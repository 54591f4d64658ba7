/** What is measured of one checkout: gives the cost of a turn, in any unit, lower is better. */
export type Measure = () => Promise<number>

/** A checkout beside another. */
export interface Pair {
  readonly before: Measure
  readonly after: Measure
}

const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((one, other) => one - other)
  const half = sorted.length / 2
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(half)] as number)
    : ((sorted[half - 1] as number) + (sorted[half] as number)) / 2
}

/**
 * Measures both in turn, so that what is compared is of the same seconds, and prints the medians with the median of the
 * ratios turn by turn. Who goes first changes with each turn.
 */
export async function compare(name: string, unit: string, turns: number, { before, after }: Pair): Promise<void> {
  const costs = { before: [] as number[], after: [] as number[] }
  for (let turn = 0; turn < turns; turn++) {
    if (turn % 2 === 0) costs.before.push(await before())
    costs.after.push(await after())
    if (turn % 2 === 1) costs.before.push(await before())
  }
  const ratios = costs.after.map((cost, turn) => cost / (costs.before[turn] as number)).sort((a, b) => a - b)
  const at = (share: number) => (ratios[Math.floor((ratios.length - 1) * share)] as number).toFixed(3)
  const shown = (values: readonly number[]) => median(values).toFixed(1).padStart(9)
  console.log(
    `${name.padEnd(36)} before ${shown(costs.before)} ${unit}  after ${shown(costs.after)} ${unit}  ` +
      `ratio ${median(ratios).toFixed(3)} (quartiles ${at(0.25)} to ${at(0.75)})`,
  )
}
