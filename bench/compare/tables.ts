/**
 * The tables of docs/performance.md, from what bench/compare/run.ts has written.
 * Usage: tables.ts bench/results/FILE.json
 */
import { readFileSync } from 'node:fs'
import { type Estimate, estimate } from '../gateway/estimate.ts'
import { median } from '../percentile.ts'
import { BARE, countWithin, findRow, type Ratio, type Row, ratioOf } from '../shipped/measure.ts'
import { KINDS, type Kind } from '../shipped/work.ts'

/** What a run of bench/compare found. */
export interface Results {
  readonly command: string
  readonly date: string
  readonly commit: string
  readonly machine: Readonly<Record<string, string | number>>
  readonly extent: Readonly<Record<string, number>>
  readonly rows: readonly Row[]
  /** A bare Node and an idle proxy, of bench/sidecar. */
  readonly idle?: readonly {
    readonly name: string
    readonly ms: Estimate
    readonly cpuMs: Estimate
    readonly mebibytes: Estimate
  }[]
}

const TITLES: Readonly<Record<Kind, string>> = {
  call: 'A call of a tool',
  list: 'A list of the tools',
  session: 'A session: opened, one call in it, ended',
}
const NOTHING_ON = 'portico none'

const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
const shown = (ratio: Ratio | undefined) =>
  ratio === undefined ? '' : `${ratio.ratio.toFixed(2)} ± ${ratio.error.toFixed(2)}`

function tableOf(rows: readonly Row[], kind: Kind): string[] {
  const its = rows.filter((row) => row.kind === kind)
  const isIdleKnown = its.some(({ idleKiB }) => idleKiB.length > 0)
  const head = [
    '',
    'µs of CPU',
    'of nothing on',
    'of bare, a CPU-second',
    'a CPU-second',
    'a second',
    'p50 ms',
    'p99 ms',
    'MiB',
  ]
  return [
    line([...head, ...(isIdleKnown && kind === 'session' ? ['KiB an idle session'] : []), 'within 10 %']),
    line(Array.from({ length: head.length + (isIdleKnown && kind === 'session' ? 2 : 1) }, () => '---')),
    ...its.map(({ era, name, micros, perSecond, p50, p99, ownMiB, idleKiB }) => {
      const cpu = estimate(micros)
      const nothing = name.startsWith('portico') ? findRow(rows, era, kind, NOTHING_ON) : undefined
      const bare = findRow(rows, era, kind, BARE)
      return line([
        name,
        `${cpu.median.toFixed(0)} ± ${cpu.error.toFixed(0)}`,
        shown(nothing && ratioOf(micros, nothing.micros)),
        shown(bare && ratioOf(bare.micros, micros)),
        (1e6 / cpu.median).toFixed(0),
        median(perSecond).toFixed(0),
        median(p50).toFixed(2),
        median(p99).toFixed(2),
        median(ownMiB).toFixed(0),
        ...(isIdleKnown && kind === 'session' ? [idleKiB.length === 0 ? '' : median(idleKiB).toFixed(1)] : []),
        `${countWithin(cpu, micros)} of ${micros.length}`,
      ])
    }),
  ]
}

/** Prints what a run found, as Markdown. */
export function printTables({ command, date, commit, machine, extent, rows, idle }: Results): void {
  console.log(`${date}, commit ${commit}: \`${command}\``)
  console.log(
    `${Object.entries({ ...machine, ...extent })
      .flatMap(([name, value]) => `${name} ${value}`)
      .join(', ')}\n`,
  )
  for (const kind of KINDS)
    for (const era of ['legacy', 'modern'] as const) {
      const its = rows.filter((row) => row.era === era)
      if (!its.some((row) => row.kind === kind)) continue
      console.log(`${TITLES[kind]}, ${era} era\n\n${tableOf(its, kind).join('\n')}\n`)
    }
  if (idle === undefined) return
  console.log(line(['idle', 'ready after ms', 'ms of CPU', 'MiB of its own']))
  console.log(line(['---', '---', '---', '---']))
  // Of one start there is no error, which JSON has as null.
  const of = ({ median, error }: Estimate, digits: number) =>
    `${median.toFixed(digits)} ± ${(error ?? Number.NaN).toFixed(digits)}`
  for (const { name, ms, cpuMs, mebibytes } of idle)
    console.log(line([name, of(ms, 0), of(cpuMs, 0), of(mebibytes, 1)]))
}

if (import.meta.main) printTables(JSON.parse(readFileSync(process.argv[2] as string, 'utf8')))
