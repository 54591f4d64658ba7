/**
 * What the shipped gateway costs: processor time of its process a call, a list, a session (opened, one call in it, ended),
 * with nothing on and with each feature, of one checkout or of several in turn, beside a bare proxy on node:http. Each
 * start is a new process by the command line of the image, on the checkout's bundle. All of a round run at a time and are
 * measured in turn, so that they see the same machine; two backends of 20 tools, 32 connections, every answer checked.
 *
 * Usage: cost.ts [--roots A=DIR,B=DIR] [--features none,jwt,…] [--eras legacy,modern] [--kinds call,list,session]
 *   [--starts 9] [--seconds 2: measured of each process, era and kind] [--warm 20000: requests of each before]
 *   [--json FILE]
 * A feature that a checkout does not take is left out, with a line.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Estimate, estimate } from '../gateway/estimate.ts'
import { endParts, type Part, start as startPart } from '../gateway/parts.ts'
import type { Era } from '../gateway/requests.ts'
import { median } from '../percentile.ts'
import { configure, FEATURES, type Feature, needsTokens, type Surroundings, startSurroundings } from './features.ts'
import { startGateway } from './gateway.ts'
import { buildShipped, type Shipped } from './image.ts'
import { endProcesses, readUsage } from './process.ts'
import { KINDS, type Kind, openWork, type Work } from './work.ts'

const WORKERS = 32
/** In seconds. Long enough for what the kernel's hundredths are worth, short enough that all see the same machine. */
const TURN = 0.5
/** All kinds in several rounds: what V8 learns from one makes it compile anew what it has compiled for another. */
const WARM_ROUNDS = 2
const BARE = 'bare'
const MIB = 1024 * 1024

const { values } = parseArgs({
  options: {
    roots: { type: 'string', default: `this=${resolve(import.meta.dirname, '../..')}` },
    features: { type: 'string', default: FEATURES.join(',') },
    eras: { type: 'string', default: 'legacy,modern' },
    kinds: { type: 'string', default: KINDS.join(',') },
    starts: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '2' },
    warm: { type: 'string', default: '20000' },
    json: { type: 'string' },
  },
})

function chosen<T extends string>(text: string, all: readonly T[]): T[] {
  const names = text.split(',') as T[]
  const unknown = names.filter((name) => !all.includes(name))
  if (unknown.length > 0) throw new Error(`no such ${unknown.join(', ')}; there are ${all.join(', ')}`)
  return names
}

const options = {
  roots: values.roots.split(',').map((text) => text.split('=') as [name: string, root: string]),
  features: chosen(values.features, FEATURES),
  eras: chosen<Era>(values.eras, ['legacy', 'modern']),
  kinds: chosen(values.kinds, KINDS),
  starts: Number(values.starts),
  turns: Math.ceil(Number(values.seconds) / TURN),
  warm: Number(values.warm),
}

/** One process of a round. */
interface Measured {
  readonly root: string
  readonly feature: Feature
  readonly pid: number
  readonly work: Work
  readonly metrics?: string | undefined
  end(): void
}

/** What all starts of the same gave, by `key`. */
interface Sample {
  /** Microseconds of processor time each, by kind. */
  readonly cpu: Partial<Record<Kind, number>>
  readonly ownMiB: number
}

const keyOf = (root: string, feature: Feature) => `${root} ${feature}`

async function measureStart(
  era: Era,
  shipped: ReadonlyMap<string, Shipped>,
  backends: readonly Part[],
  surroundings: Surroundings,
  directory: string,
  round: number,
): Promise<Map<string, Sample>> {
  const all: Measured[] = [await startBare(era, backends[0] as Part)]
  for (const feature of options.features)
    for (const [root, product] of shipped) {
      const started = await startMeasured(era, root, product, feature, backends, surroundings, directory)
      if (started !== undefined) all.push(started)
    }
  const each = Math.ceil(options.warm / WORKERS / WARM_ROUNDS)
  for (let warmUp = 0; warmUp < WARM_ROUNDS; warmUp++)
    for (const one of all)
      for (const kind of kindsOf(era, one))
        await one.work.run(kind, { seconds: 120, each: kind === 'session' ? Math.ceil(each / 4) : each })
  const samples = new Map<string, Sample>()
  const spent = new Map(all.map((one) => [one, {} as Partial<Record<Kind, { cpu: number; done: number }>>]))
  for (const kind of options.kinds)
    for (let turn = 0; turn < options.turns; turn++) {
      // To and fro, and beginning with another one each time: none is always measured behind the same other one.
      const from = (round + (turn >> 1)) % all.length
      const order = [...all.slice(from), ...all.slice(0, from)]
      for (const one of turn % 2 === 0 ? order : order.toReversed()) {
        if (!kindsOf(era, one).includes(kind)) continue
        const before = readUsage(one.pid)
        // Prometheus asks once a second.
        const scraped = turn % 2 === 0 && one.metrics !== undefined ? fetch(one.metrics).then((it) => it.text()) : ''
        const done = await one.work.run(kind, { seconds: TURN })
        const used = readUsage(one.pid).cpu - before.cpu
        if (scraped !== '' && !(await scraped).includes('mcp_server_operation')) throw new Error('no metrics')
        const its = spent.get(one) as Partial<Record<Kind, { cpu: number; done: number }>>
        its[kind] ??= { cpu: 0, done: 0 }
        its[kind].cpu += used
        its[kind].done += done
      }
    }
  for (const [one, its] of spent) {
    const cpu = Object.fromEntries(Object.entries(its).map(([kind, { cpu, done }]) => [kind, cpu / done]))
    samples.set(one.root === BARE ? BARE : keyOf(one.root, one.feature), {
      cpu,
      ownMiB: readUsage(one.pid).own / MIB,
    })
    await one.work.close()
    one.end()
  }
  return samples
}

const kindsOf = (era: Era, { root }: Measured): readonly Kind[] =>
  options.kinds.filter((kind) => (kind !== 'session' || era === 'legacy') && (root !== BARE || kind === 'call'))

async function startBare(era: Era, backend: Part): Promise<Measured> {
  const part = await startPart(new URL('../gateway/bare-node.ts', import.meta.url), new URL(backend.origin).port)
  const name = (_: number, count: number) => `tool_${count % 20}`
  const work = await openWork({ origin: part.origin, era, name, tokens: [], hasSessions: false }, WORKERS)
  return { root: BARE, feature: 'none', pid: part.child.pid as number, work, end: () => part.child.disconnect() }
}

const leftOut = new Set<string>()

async function startMeasured(
  era: Era,
  root: string,
  shipped: Shipped,
  feature: Feature,
  backends: readonly Part[],
  surroundings: Surroundings,
  directory: string,
): Promise<Measured | undefined> {
  if (leftOut.has(keyOf(root, feature))) return undefined
  const { config, env } = configure(feature, backends, surroundings, directory)
  try {
    const gateway = await startGateway(shipped, directory, config, env)
    const work = await openWork(
      {
        ...{ origin: gateway.origin, era, hasSessions: true },
        name: (worker, count) => `b${(worker + count) % 2}_tool_${count % 20}`,
        tokens: needsTokens(feature) ? surroundings.tokens : [],
      },
      WORKERS,
    )
    const metrics = env['OTEL_METRIC_EXPORT_INTERVAL'] === undefined ? undefined : `${gateway.adminOrigin}/metrics`
    return { root, feature, pid: gateway.pid, work, metrics, end: gateway.end }
  } catch (error) {
    // This checkout must take all of its own.
    if (root === options.roots[0]?.[0] || feature === 'none') throw error
    leftOut.add(keyOf(root, feature))
    console.log(`${root} has no ${feature}: left out (${String(error).slice(0, 300)})`)
    return undefined
  }
}

/** Of a row against another: the ratio of the medians, and the standard error by the ratios of the starts. */
function ratioOf(
  ours: readonly number[],
  theirs: readonly number[],
): { readonly ratio: number; readonly error: number } {
  const { error } = estimate(ours.map((value, start) => value / (theirs[start] as number)))
  return { ratio: median(ours) / median(theirs), error }
}

interface Row {
  readonly era: Era
  readonly kind: Kind
  readonly root: string
  readonly feature: Feature
  /** Microseconds of processor time each, of every start. */
  readonly micros: readonly number[]
  readonly ownMiB: readonly number[]
}

function rowsOf(era: Era, starts: readonly Map<string, Sample>[]): Row[] {
  const keys = [...new Set(starts.flatMap((start) => [...start.keys()]))]
  return options.kinds.flatMap((kind) =>
    keys.flatMap((key) => {
      const samples = starts.flatMap((start) => start.get(key) ?? [])
      const micros = samples.flatMap(({ cpu }) => cpu[kind] ?? [])
      const [root, feature] = key === BARE ? [BARE, 'none'] : key.split(' ')
      return micros.length === 0
        ? []
        : [{ era, kind, root, feature, micros, ownMiB: samples.map(({ ownMiB }) => ownMiB) } as Row]
    }),
  )
}

const within = ({ median }: Estimate, values: readonly number[]) =>
  values.filter((value) => Math.abs(value / median - 1) <= 0.1).length

function print(rows: readonly Row[]): void {
  const shown = ({ ratio, error }: { ratio: number; error: number }) => `${ratio.toFixed(3)} ± ${error.toFixed(3)}`
  for (const row of rows) {
    const { era, kind, root, feature, micros, ownMiB } = row
    const found = estimate(micros)
    const other = (of: Partial<Row>) =>
      rows.find(
        (one) =>
          one.kind === kind &&
          Object.entries({ root, feature, ...of }).every(([name, value]) => one[name as keyof Row] === value),
      )
    const bare = root === BARE ? undefined : other({ root: BARE, feature: 'none' })
    const nothing = root === BARE || feature === 'none' ? undefined : other({ feature: 'none' })
    const others = options.roots.map(([name]) => name).filter((name) => name !== root && root !== BARE)
    console.log(
      [
        `${era} ${kind}`.padEnd(15),
        `${root === BARE ? BARE : `${root} ${feature}`}`.padEnd(18),
        `${found.median.toFixed(1).padStart(7)} ± ${found.error.toFixed(1)} µs`,
        `${found.least.toFixed(1)} to ${found.most.toFixed(1)}, ${within(found, micros)} of ${micros.length} within 10 %`,
        `${median(ownMiB).toFixed(0)} MiB`,
        ...(nothing === undefined ? [] : [`${shown(ratioOf(micros, nothing.micros))} of nothing on`]),
        ...(bare === undefined ? [] : [`${shown(ratioOf(bare.micros, micros))} of bare a CPU-second`]),
        ...others.flatMap((name) => {
          const its = other({ root: name })
          return its === undefined ? [] : [`${shown(ratioOf(micros, its.micros))} of ${name}`]
        }),
      ].join('  '),
    )
  }
}

const directory = mkdtempSync(join(tmpdir(), 'portico-bench-'))
const surroundings = await startSurroundings()
const shipped = new Map<string, Shipped>()
const rows: Row[] = []
try {
  for (const [name, root] of options.roots) shipped.set(name, await buildShipped(resolve(root)))
  for (const era of options.eras) {
    const backend = () => startPart(new URL('../gateway/bare-backend.ts', import.meta.url), era)
    const backends = [await backend(), await backend()]
    const starts: Map<string, Sample>[] = []
    for (let round = 0; round < options.starts; round++)
      starts.push(await measureStart(era, shipped, backends, surroundings, directory, round))
    const found = rowsOf(era, starts)
    print(found)
    rows.push(...found)
    endParts()
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows)}\n`)
} finally {
  endProcesses()
  endParts()
  surroundings.close()
  for (const product of shipped.values()) await product.remove()
  rmSync(directory, { recursive: true, force: true })
}
