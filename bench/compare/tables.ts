/**
 * Writes the tables of docs/performance.md from a result of bench/compare/run.ts. Usage: tables.ts
 * bench/results/FILE.json [--into docs/performance.md: between its comments on results]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Estimate, estimate, withError } from '../gateway/estimate.ts'
import { median } from '../percentile.ts'
import { BARE, computeRatio, countWithin, findRow, type Ratio, type Row } from '../shipped/measure.ts'
import { KINDS, type Kind } from '../shipped/work.ts'

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
const formatRatio = (ratio: Ratio | undefined) => (ratio === undefined ? '' : withError(ratio.ratio, ratio.error, 2))

function formatTable(rows: readonly Row[], kind: Kind): string[] {
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
        withError(cpu.median, cpu.error, 0),
        formatRatio(nothing && computeRatio(micros, nothing.micros)),
        formatRatio(bare && computeRatio(bare.micros, micros)),
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

/** Formats the results of a run as Markdown. */
export function formatTables({ command, date, commit, machine, extent, rows, idle }: Results): string {
  const facts = Object.entries({ ...machine, ...extent }).map(([name, value]) => `${name} ${value}`)
  const texts = [`${date}, commit ${commit}: \`${command}\`\n${facts.join(', ')}`]
  for (const kind of KINDS)
    for (const era of ['legacy', 'modern'] as const) {
      const its = rows.filter((row) => row.era === era)
      if (its.some((row) => row.kind === kind))
        texts.push(`${TITLES[kind]}, ${era} era:`, formatTable(its, kind).join('\n'))
    }
  const format = ({ median, error }: Estimate, digits: number) => withError(median, error ?? Number.NaN, digits)
  if (idle !== undefined)
    texts.push(
      [
        line(['idle', 'ready after ms', 'ms of CPU', 'MiB of its own']),
        line(['---', '---', '---', '---']),
        ...idle.map(({ name, ms, cpuMs, mebibytes }) =>
          line([name, format(ms, 0), format(cpuMs, 0), format(mebibytes, 1)]),
        ),
      ].join('\n'),
    )
  return texts.join('\n\n')
}

const RESULTS = /(<!-- results:.*-->\n)[\s\S]*(<!-- end of results -->)/

if (import.meta.main) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { into: { type: 'string' } } })
  const tables = formatTables(JSON.parse(readFileSync(positionals[0] as string, 'utf8')))
  if (values.into === undefined) console.log(tables)
  else {
    const text = readFileSync(values.into, 'utf8')
    if (!RESULTS.test(text)) throw new Error(`${values.into} has no place for results`)
    writeFileSync(
      values.into,
      text.replace(RESULTS, (_, before, after) => `${before}\n${tables}\n\n${after}`),
    )
  }
}
