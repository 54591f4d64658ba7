import type { Published } from './publish.ts'
import { isLookup, type Measured } from './reads.ts'

/** The registry that was measured. */
export interface At {
  readonly store: string
  readonly rows: number
}

/** Collects results and compares them with the targets of docs and issues. */
export interface Report {
  read(at: At, name: string, measured: Measured): void
  sync(at: At, measured: Readonly<Record<string, number>>): void
  publish(at: At, published: Published): void
  start(store: string, names: number, seconds: number): void
  print(): void
}

interface Target {
  readonly target: string
  readonly measured: number
  readonly met: boolean
}

const PAGE_MS: Readonly<Record<string, number>> = { SQLite: 1, PostgreSQL: 3 }
const PUBLISHED_PER_SECOND: Readonly<Record<string, number>> = { SQLite: 1_000, PostgreSQL: 600 }
const SEARCH_MS = 10
const LOOKUPS_PER_CPU_SECOND = 8_000
const RATIO = 1.5
const MEMORY_MIB = 512
const START_S = 8

export function createReport(sizes: readonly number[]): Report {
  const [small = 0, large = small] = [sizes[0], sizes.at(-1)]
  /** By store and name, then by size. */
  const reads = new Map<string, Map<string, Map<number, Measured>>>()
  const syncs: Record<string, Readonly<Record<string, number>>> = {}
  const publications: Record<string, Published> = {}
  const targets: Record<string, Target> = {}

  function aim(name: string, measured: number, target: string, met: boolean): void {
    targets[name] = { target, measured: round(measured), met }
  }

  const atMost = (name: string, measured: number, limit: number) => aim(name, measured, `≤ ${limit}`, measured <= limit)
  const atLeast = (name: string, measured: number, limit: number) =>
    aim(name, measured, `≥ ${limit}`, measured >= limit)

  function aimReads(store: string, measured: ReadonlyMap<string, ReadonlyMap<number, Measured>>): void {
    const p50 = (name: string, rows: number) => measured.get(name)?.get(rows)?.p50Ms ?? Number.NaN
    for (const name of measured.keys()) {
      if (/page/.test(name)) {
        atMost(`${store}: ${name}, p50 ms`, p50(name, large), PAGE_MS[store] as number)
        // A twentieth of a small catalog has no later pages to compare with.
        const all = name.replace(/, one team.*/, ', every team')
        if (all !== name) atMost(`${store}: ${name} to every team`, p50(name, large) / p50(all, large), RATIO)
        else if (small !== large)
          atMost(`${store}: ${name}, ${large} to ${small}`, p50(name, large) / p50(name, small), RATIO)
      }
      if (isLookup(name))
        for (const rows of new Set([small, large]))
          atLeast(
            `${store}: ${name}, per CPU-second, ${rows}`,
            1000 / (measured.get(name)?.get(rows)?.cpuMs ?? Number.NaN),
            LOOKUPS_PER_CPU_SECOND,
          )
      if (/search/.test(name)) atMost(`${store}: ${name}, p50 ms`, p50(name, large), SEARCH_MS)
    }
  }

  return {
    read({ store, rows }, name, measured) {
      const byName = reads.get(store) ?? new Map<string, Map<number, Measured>>()
      reads.set(store, byName)
      byName.set(name, (byName.get(name) ?? new Map<number, Measured>()).set(rows, measured))
    },
    sync({ store, rows }, measured) {
      syncs[`${store}, ${rows}`] = measured
      if (rows === large)
        atMost(`${store}: peak of memory, MiB`, measured['peak with reads, MiB'] as number, MEMORY_MIB)
      atMost(`${store}: writes of unchanged sources, ${rows}`, measured['its writes'] as number, 0)
    },
    publish({ store, rows }, published) {
      publications[`${store}, ${rows}`] = published
      atLeast(`${store}: published a second, ${rows}`, published.perSecond, PUBLISHED_PER_SECOND[store] as number)
      atMost(`${store}: lost or refused, ${rows}`, published.lost + published.refused, 0)
    },
    start: (store, names, seconds) => atMost(`${store}: ${names} names served, s`, seconds, START_S),
    print() {
      for (const [store, measured] of reads) {
        aimReads(store, measured)
        console.log(`\n${store}: milliseconds and processor time a request, ${small} and ${large} versions`)
        console.table(Object.fromEntries(Array.from(measured, ([name, bySize]) => [name, buildColumns(bySize)])))
      }
      console.log('\nFirst sync and unchanged sources')
      console.table(table(syncs))
      console.log('\nPublishing')
      console.table(table(publications as unknown as typeof syncs))
      console.log('\nTargets')
      console.table(targets)
    },
  }

  function buildColumns(bySize: ReadonlyMap<number, Measured>): Record<string, number> {
    const columns: Record<string, number> = {}
    for (const [rows, { p50Ms, p99Ms, cpuMs }] of bySize)
      Object.assign(columns, {
        [`p50 ${rows}`]: round(p50Ms),
        [`p99 ${rows}`]: round(p99Ms),
        [`cpu ${rows}`]: round(cpuMs),
      })
    const [one, other] = [bySize.get(small), bySize.get(large)]
    if (one !== undefined && other !== undefined) columns['ratio p50'] = round(other.p50Ms / one.p50Ms)
    return columns
  }
}

function table(rows: Readonly<Record<string, Readonly<Record<string, number>>>>) {
  return Object.fromEntries(
    Object.entries(rows).map(([name, row]) => [
      name,
      Object.fromEntries(Object.entries(row).map(([column, value]) => [column, round(value)])),
    ]),
  )
}

const round = (value: number) => Number(value.toPrecision(4))
