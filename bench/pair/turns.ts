import { median } from '../percentile.ts'

export interface Cost {
  readonly total: number
  /** The part spent in the process itself: kernel time depends on which threads it must wake. */
  readonly user?: number
}

/** Measures one process of a checkout: returns the cost of a turn. */
export type Measure = () => Promise<Cost>

export interface Pair<T> {
  readonly before: T
  readonly after: T
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

const medianCost = (costs: readonly Cost[]): Cost => {
  const users = costs.flatMap(({ user }) => user ?? [])
  const total = median(costs.map((cost) => cost.total))
  return users.length === 0 ? { total } : { total, user: median(users) }
}

function meanRatio(ratios: readonly number[]): string {
  const logarithms = ratios.map(Math.log)
  const centre = mean(logarithms)
  const variance = logarithms.reduce((sum, one) => sum + (one - centre) ** 2, 0) / (logarithms.length - 1)
  return `${Math.exp(centre).toFixed(3)} ± ${Math.sqrt(variance / logarithms.length).toFixed(3)}`
}

/** Opens one on either side; the side to open first alternates. */
export async function openBoth<T>(round: number, open: (side: 'before' | 'after') => Promise<T>): Promise<Pair<T>> {
  const opened: Partial<Record<'before' | 'after', T>> = {}
  for (const side of sides(round)) opened[side] = await open(side)
  return opened as Pair<T>
}

const sides = (turn: number) => (turn % 2 === 0 ? (['before', 'after'] as const) : (['after', 'before'] as const))

/**
 * The costs of two checkouts over rounds of new processes: one program costs up to a tenth more in one process than in
 * the next, and only many processes even that out.
 */
export class Comparison {
  readonly #unit: string
  readonly #rounds = new Map<string, Pair<Cost>[]>()

  constructor(unit: string) {
    this.#unit = unit
  }

  /** Measures both sides of a round in turn and keeps the medians. */
  async measure(name: string, turns: number, pair: Pair<Measure>): Promise<void> {
    const costs = { before: [] as Cost[], after: [] as Cost[] }
    for (let turn = 0; turn < turns; turn++) for (const side of sides(turn)) costs[side].push(await pair[side]())
    const rounds = this.#rounds.get(name) ?? []
    this.#rounds.set(name, [...rounds, { before: medianCost(costs.before), after: medianCost(costs.after) }])
  }

  /** Prints the means over the rounds, and the geometric mean of the ratios with its standard error. */
  print(): void {
    for (const [name, rounds] of this.#rounds) {
      const formatSide = (side: 'before' | 'after') =>
        `${side} ${mean(rounds.map((round) => round[side].total))
          .toFixed(1)
          .padStart(9)} ${this.#unit}`
      const totals = rounds.map(({ before, after }) => after.total / before.total)
      const users = rounds.flatMap(({ before, after }) =>
        before.user === undefined || after.user === undefined ? [] : after.user / before.user,
      )
      console.log(
        `${name.padEnd(36)} ${formatSide('before')}  ${formatSide('after')}  ratio ${meanRatio(totals)}` +
          `${users.length === 0 ? '' : `, in user mode ${meanRatio(users)}`} (${rounds.length} rounds)`,
      )
    }
  }
}
