/** Formats the table of the slowest files. */
import type { Cost } from './run-file.ts'

const SHOWN = 10

const seconds = (value: number) => `${value.toFixed(1)} s`.padStart(10)

/**
 * Returns the ten files with the most CPU seconds, and of the ten with the most wall seconds those that are not among
 * them.
 */
export function slowestLines(costs: readonly (Cost & { readonly file: string })[]): string[] {
  if (costs.length === 0) return []
  const pickLargest = (by: (cost: Cost) => number) =>
    costs.toSorted((one, other) => by(other) - by(one)).slice(0, SHOWN)
  const slowest = new Set([...pickLargest(({ cpu }) => cpu ?? 0), ...pickLargest((cost) => cost.seconds)])
  const isKnown = costs.every(({ cpu }) => cpu !== undefined)
  const line = (cost: Cost, name: string) => `${isKnown ? seconds(cost.cpu ?? 0) : ''}${seconds(cost.seconds)}  ${name}`
  const sum = {
    cpu: costs.reduce((all, { cpu }) => all + (cpu ?? 0), 0),
    seconds: costs.reduce((all, cost) => all + cost.seconds, 0),
  }
  return [
    `slowest: ${isKnown ? 'CPU and wall seconds of the file and of all processes that it starts' : 'wall seconds'}`,
    ...[...slowest].map((cost) => line(cost, cost.file)),
    line(sum, 'all of them'),
  ]
}
