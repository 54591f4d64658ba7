import { type Estimate, estimate, withError } from '../gateway/estimate.ts'
import { endParts, type Part, start as startPart } from '../gateway/parts.ts'
import type { Era } from '../gateway/requests.ts'
import { median, percentile } from '../percentile.ts'
import { readUsage } from './process.ts'
import { type Endpoint, type Kind, openWork, type Work } from './work.ts'

/** All workers of one turn; they share a machine, so the load is the same for all. */
const WORKERS = 32
/** Seconds; short enough that all see the same machine. */
const TURN = 0.5
/** Several rounds over all kinds, because work of one kind makes V8 recompile code of another. */
const WARM_ROUNDS = 2
const MIB = 1024 * 1024
/** The base of comparisons: node:http on both sides. */
export const BARE = 'bare node:http'
const BARE_UNDICI = 'bare undici'

export interface Started extends Omit<Endpoint, 'era'> {
  readonly pid: number
  /** The URL that Prometheus scrapes each second. */
  readonly metrics?: string | undefined
  readonly kinds?: readonly Kind[]
  end(): void
}

/** A process to measure, in each era and at each start. */
export interface Target {
  readonly name: string
  /** Returns undefined, after a printed reason, if it can't be measured in this era. */
  start(era: Era, backends: readonly Part[]): Promise<Started | undefined>
}

export interface Extent {
  readonly eras: readonly Era[]
  readonly kinds: readonly Kind[]
  readonly starts: number
  /** Measured of each process and kind. */
  readonly seconds: number
  readonly warm: number
  /** Sessions that are opened at the end and left idle. */
  readonly idle?: number
  readonly firstPort?: number | undefined
}

export interface Row {
  readonly era: Era
  readonly kind: Kind
  readonly name: string
  /** Microseconds of processor time each. */
  readonly micros: readonly number[]
  readonly perSecond: readonly number[]
  readonly p50: readonly number[]
  readonly p99: readonly number[]
  /** Private memory after the work, and KiB for each idle session. */
  readonly ownMiB: readonly number[]
  readonly idleKiB: readonly number[]
}

interface Spent {
  cpu: number
  requests: number
  seconds: number
  readonly latencies: number[]
}

interface Measured {
  readonly name: string
  readonly started: Started
  readonly work: Work
  readonly spent: Map<Kind, Spent>
}

type Samples = Map<string, Omit<Row, 'era' | 'kind' | 'name'>>

/**
 * Measures all targets with new processes per start; all run together and work in turns. Rejects at a wrong answer.
 * `told` gets the rows of each era.
 */
export async function measureCosts(
  targets: readonly Target[],
  extent: Extent,
  report: (rows: readonly Row[]) => void,
): Promise<Row[]> {
  const rows: Row[] = []
  for (const era of extent.eras) {
    const first = extent.firstPort === undefined ? undefined : extent.firstPort + (era === 'legacy' ? 0 : 2)
    const backend = (index: number) => startPart(BACKEND, era, ...(first === undefined ? [] : [String(first + index)]))
    const backends = [await backend(0), await backend(1)]
    const starts: Samples[] = []
    for (let round = 0; round < extent.starts; round++) {
      const began = performance.now()
      starts.push(await measureStart(targets, extent, era, backends, round))
      const minutes = (performance.now() - began) / 60_000
      console.error(`${era}: start ${round + 1} of ${extent.starts} measured in ${minutes.toFixed(1)} min`)
    }
    const found = [...new Set(starts.flatMap((start) => [...start.keys()]))].map((key) => {
      const [kind, ...name] = key.split(' ')
      const samples = starts.flatMap((start) => start.get(key) ?? [])
      const collect = (of: keyof (typeof samples)[number]) => samples.flatMap((sample) => sample[of])
      return {
        ...({ era, kind, name: name.join(' ') } as Pick<Row, 'era' | 'kind' | 'name'>),
        ...{ micros: collect('micros'), perSecond: collect('perSecond'), p50: collect('p50'), p99: collect('p99') },
        ...{ ownMiB: collect('ownMiB'), idleKiB: collect('idleKiB') },
      }
    })
    const sorted = extent.kinds.flatMap((kind) => found.filter((row) => row.kind === kind))
    report(sorted)
    rows.push(...sorted)
    endParts()
  }
  return rows
}

const BACKEND = new URL('../gateway/bare-backend.ts', import.meta.url)

async function measureStart(
  targets: readonly Target[],
  { kinds, seconds, warm, idle = 0 }: Extent,
  era: Era,
  backends: readonly Part[],
  round: number,
): Promise<Samples> {
  const all: Measured[] = []
  for (const { name, start } of targets) {
    const started = await start(era, backends)
    if (started !== undefined)
      all.push({ name, started, work: await openWork({ ...started, era }, WORKERS), spent: new Map() })
  }
  const listKinds = ({ started }: Measured) =>
    kinds.filter((kind) => (kind !== 'session' || era === 'legacy') && (started.kinds ?? kinds).includes(kind))
  const each = Math.ceil(warm / WORKERS / WARM_ROUNDS)
  for (let warmUp = 0; warmUp < WARM_ROUNDS; warmUp++)
    for (const one of all)
      for (const kind of listKinds(one))
        await one.work.run(kind, { seconds: 120, each: kind === 'session' ? Math.ceil(each / 4) : each })
  for (const kind of kinds)
    for (let turn = 0; turn < seconds / TURN; turn++) {
      // The order rotates: no target always follows the same other one.
      const from = (round + (turn >> 1)) % all.length
      const order = [...all.slice(from), ...all.slice(0, from)]
      for (const one of turn % 2 === 0 ? order : order.toReversed())
        if (listKinds(one).includes(kind)) await takeTurn(one, kind, turn)
    }
  const samples: Samples = new Map()
  for (const one of all) {
    const { name, started, work, spent } = one
    const before = readUsage(started.pid).own
    const hasIdle = idle > 0 && era === 'legacy' && started.hasSessions
    if (hasIdle) await work.openSessions(idle)
    const idleKiB = hasIdle ? [(readUsage(started.pid).own - before) / idle / 1024] : []
    for (const [kind, { cpu, requests, seconds, latencies }] of spent) {
      const sorted = Float64Array.from(latencies).sort()
      samples.set(`${kind} ${name}`, {
        ...{ micros: [cpu / requests], perSecond: [requests / seconds] },
        ...{ p50: [percentile(sorted, 0.5)], p99: [percentile(sorted, 0.99)] },
        ...{ ownMiB: [before / MIB], idleKiB },
      })
    }
  }
  for (const { work, started } of all) {
    await work.close()
    started.end()
  }
  return samples
}

async function takeTurn({ started, work, spent }: Measured, kind: Kind, turn: number): Promise<void> {
  const { cpu } = readUsage(started.pid)
  const fetched = turn % 2 === 0 && started.metrics !== undefined ? fetch(started.metrics) : undefined
  const done = await work.run(kind, { seconds: TURN })
  if (fetched !== undefined && !(await (await fetched).text()).includes('mcp_server_operation'))
    throw new Error('no metrics')
  const its = spent.get(kind) ?? { cpu: 0, requests: 0, seconds: 0, latencies: [] }
  its.cpu += readUsage(started.pid).cpu - cpu
  its.requests += done.requests
  its.seconds += done.seconds
  for (const latency of done.latencies) its.latencies.push(latency)
  spent.set(kind, its)
}

/** A proxy that inspects nothing: it has no sessions, and lists one backend. */
const bare = (name: string, script: string): Target => ({
  name,
  async start(_era, backends) {
    const part = await startPart(new URL(`../gateway/${script}`, import.meta.url), new URL(origin(backends)).port)
    const end = () => part.child.disconnect()
    return { ...{ pid: part.pid, origin: part.origin, name: directName, tokens: [], end }, ...NO_SESSIONS }
  },
})

/** The least that proxies on Node do: with Node's client, and with undici, which is faster. */
export const bareProxies: readonly Target[] = [bare(BARE, 'bare-http.ts'), bare(BARE_UNDICI, 'bare-node.ts')]

export const direct: Target = {
  name: 'direct',
  async start(_era, [backend]) {
    const { pid, origin } = backend as Part
    return { ...{ pid, origin, name: directName, tokens: [], end: () => undefined }, ...NO_SESSIONS }
  },
}

const NO_SESSIONS = { hasSessions: false, kinds: ['call'] } as const
const origin = (backends: readonly Part[]) => backends[0]?.origin as string
const directName = (_: number, count: number) => `tool_${count % 20}`

/** Returns the shown name of a tool of one of the two backends. */
export const gatewayName =
  (separator = '_') =>
  (worker: number, count: number) =>
    `b${(worker + count) % 2}${separator}tool_${count % 20}`

/** The ratio of two medians, with the standard error from the ratios of the starts. */
export interface Ratio {
  readonly ratio: number
  readonly error: number
}

export function computeRatio(ours: readonly number[], theirs: readonly number[]): Ratio {
  const { error } = estimate(ours.map((value, start) => value / (theirs[start] ?? Number.NaN)))
  return { ratio: median(ours) / median(theirs), error }
}

/** Counts starts whose value lies within a tenth of the median. */
export const countWithin = ({ median }: Estimate, values: readonly number[]): number =>
  values.filter((value) => Math.abs(value / median - 1) <= 0.1).length

export const findRow = (rows: readonly Row[], era: Era, kind: Kind, name: string): Row | undefined =>
  rows.find((row) => row.era === era && row.kind === kind && row.name === name)

interface Goal {
  readonly name: string
  /** The row to compare with; by default its microseconds count. */
  readonly of?: string
  readonly most: number
}

/** Prints for each era whether the goal for calls is met, within the standard error. */
export function printGoal(rows: readonly Row[], { name, of, most }: Goal): void {
  for (const { era, micros } of rows.filter((row) => row.name === name && row.kind === 'call')) {
    const base = of === undefined ? undefined : findRow(rows, era, 'call', of)
    const { ratio, error } = computeRatio(micros, base?.micros ?? micros.map(() => 1))
    const unit = of === undefined ? 'µs' : `of ${of}`
    const verdict = ratio - (Number.isNaN(error) ? 0 : error) <= most ? 'met' : 'missed'
    console.log(`${era} ${name}: ${withError(ratio, error, 3)} ${unit}, at most ${most.toFixed(3)}: ${verdict}`)
  }
}

/** Prints rows as lines; `others` names what a row is compared with beside the bare proxy. */
export function printRows(
  rows: readonly Row[],
  others: (name: string) => readonly { name: string; as: string }[],
): void {
  const formatRatio = ({ ratio, error }: Ratio) => withError(ratio, error, 3)
  for (const { era, kind, name, micros, ownMiB } of rows) {
    const found = estimate(micros)
    const bares = [BARE, BARE_UNDICI].flatMap((bare) => (name === bare ? [] : (findRow(rows, era, kind, bare) ?? [])))
    console.log(
      [
        `${era} ${kind}`.padEnd(15),
        name.padEnd(18),
        `${withError(found.median, found.error, 1).padStart(7)} µs`,
        `${found.least.toFixed(1)} to ${found.most.toFixed(1)}, ${countWithin(found, micros)} of ${micros.length} within 10 %`,
        `${median(ownMiB).toFixed(0)} MiB`,
        ...bares.map((bare) => `${formatRatio(computeRatio(bare.micros, micros))} of ${bare.name} a CPU-second`),
        ...others(name).flatMap((other) => {
          const its = findRow(rows, era, kind, other.name)
          return its === undefined ? [] : [`${formatRatio(computeRatio(micros, its.micros))} of ${other.as}`]
        }),
      ].join('  '),
    )
  }
}
