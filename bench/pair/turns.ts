/** What is measured of one process of a checkout: gives the cost of a turn, in any unit, lower is better. */
export type Measure = () => Promise<number>

/** A checkout and the one it is compared with. */
export interface Pair<T> {
  readonly before: T
  readonly after: T
}

const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((one, other) => one - other)
  const half = sorted.length / 2
  return sorted.length % 2 === 1
    ? (sorted[Math.floor(half)] as number)
    : ((sorted[half - 1] as number) + (sorted[half] as number)) / 2
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** Opens one of either side; the one opened first changes with each round. */
export async function openBoth<T>(round: number, open: (side: 'before' | 'after') => Promise<T>): Promise<Pair<T>> {
  const opened: Partial<Record<'before' | 'after', T>> = {}
  for (const side of sides(round)) opened[side] = await open(side)
  return opened as Pair<T>
}

const sides = (turn: number) => (turn % 2 === 0 ? (['before', 'after'] as const) : (['after', 'before'] as const))

/**
 * What two checkouts cost, over rounds with new processes of either side: one and the same program costs up to a tenth
 * more in one process than in the next, for as long as that lives, and only many processes even that out.
 */
export class Comparison {
  readonly #unit: string
  readonly #rounds = new Map<string, Pair<number>[]>()

  constructor(unit: string) {
    this.#unit = unit
  }

  /** Measures both sides of a round in turn, so that what is compared is of the same seconds, and keeps the medians. */
  async measure(name: string, turns: number, pair: Pair<Measure>): Promise<void> {
    const costs = { before: [] as number[], after: [] as number[] }
    for (let turn = 0; turn < turns; turn++) for (const side of sides(turn)) costs[side].push(await pair[side]())
    const rounds = this.#rounds.get(name) ?? []
    this.#rounds.set(name, [...rounds, { before: median(costs.before), after: median(costs.after) }])
  }

  /** Prints the means over the rounds, and the geometric mean of the rounds' ratios with its standard error. */
  print(): void {
    for (const [name, rounds] of this.#rounds) {
      const shown = (side: 'before' | 'after') =>
        `${side} ${mean(rounds.map((round) => round[side]))
          .toFixed(1)
          .padStart(9)} ${this.#unit}`
      const ratios = rounds.map(({ before, after }) => Math.log(after / before))
      const centre = mean(ratios)
      const variance = ratios.reduce((sum, ratio) => sum + (ratio - centre) ** 2, 0) / (ratios.length - 1)
      const error = Math.sqrt(variance / ratios.length)
      console.log(
        `${name.padEnd(36)} ${shown('before')}  ${shown('after')}  ` +
          `ratio ${Math.exp(centre).toFixed(3)} ± ${error.toFixed(3)} (${rounds.length} rounds)`,
      )
    }
  }
}
