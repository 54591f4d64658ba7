import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { withError } from '../gateway/estimate.ts'
import { BARE, computeRatio, findRow, type Ratio, type Row } from '../shipped/measure.ts'

const FILE = fileURLToPath(new URL('../reference.json', import.meta.url))

export interface Setting {
  readonly by: string
  readonly command: string
  readonly reason: string
  readonly date: string
}

interface Reference {
  readonly what: string
  /** The latest last. */
  readonly set: readonly Setting[]
  readonly ratios: Readonly<Record<string, Ratio>>
}

const WHAT = 'processor time of the shipped gateway, in calls of a bare node:http proxy in the same run'

/**
 * Returns the processor time of `side` by era, kind and feature, as a multiple of a call through the bare proxy in the
 * same run.
 */
export function ratiosToBare(rows: readonly Row[], side: string): Record<string, Ratio> {
  const ours = rows.filter(({ name }) => name.startsWith(`${side} `))
  return Object.fromEntries(
    ours.flatMap(({ era, kind, name, micros }) => {
      const bare = findRow(rows, era, 'call', BARE)
      return bare === undefined
        ? []
        : [[`${era} ${kind} ${name.slice(side.length + 1)}`, computeRatio(micros, bare.micros)]]
    }),
  )
}

/** Returns the names whose cost exceeds the reference by more than both standard errors. */
export const losses = (reference: Readonly<Record<string, Ratio>>, found: Readonly<Record<string, Ratio>>): string[] =>
  Object.entries(found).flatMap(([name, { ratio, error }]) => {
    const its = reference[name]
    return its !== undefined && ratio - its.ratio > Math.hypot(error, its.error) ? [name] : []
  })

/**
 * Compares the ratios with the reference, or writes them if `setting` is given. Returns whether something costs more
 * and was not written.
 */
export function compareWithReference(rows: readonly Row[], side: string, setting?: Setting): boolean {
  const found = ratiosToBare(rows, side)
  const reference: Reference = existsSync(FILE)
    ? JSON.parse(readFileSync(FILE, 'utf8'))
    : { what: WHAT, set: [], ratios: {} }
  const lost = losses(reference.ratios, found)
  const formatRatio = ({ ratio, error }: Ratio) => withError(ratio, error, 3)
  for (const [name, ratio] of Object.entries(found)) {
    const its = reference.ratios[name]
    const beside = its === undefined ? 'not in the reference' : `reference ${formatRatio(its)}`
    console.log(
      `${name.padEnd(24)} ${formatRatio(ratio)} bare calls, ${beside}${lost.includes(name) ? ': a loss' : ''}`,
    )
  }
  if (setting !== undefined) {
    const ratios = Object.fromEntries(
      Object.entries({ ...reference.ratios, ...found }).map(([name, { ratio, error }]) => [
        name,
        { ratio: Number(ratio.toFixed(3)), error: Number(error.toFixed(3)) },
      ]),
    )
    writeFileSync(FILE, `${JSON.stringify({ what: WHAT, set: [...reference.set, setting], ratios }, null, 2)}\n`)
    return false
  }
  if (lost.length > 0)
    console.log('What is lost is got back, or written to bench/reference.json: --set-reference NAME --reason TEXT')
  return lost.length > 0
}
