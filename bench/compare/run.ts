/**
 * Compares MCP endpoints in one run and in turn: calls, lists, new and idle sessions, in both eras. Prints requests per
 * second and per CPU-second, p50, p99 and memory. docs/performance.md describes the endpoints and how to add one.
 * Usage: run.ts [NAME=URL,pid=N …] [--starts 9] [--seconds 2] [--warm 20000] [--idle 2000] [--eras legacy,modern]
 * [--json FILE: also measures an idle proxy]
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Era } from '../gateway/requests.ts'
import { prepareResults, runBench, THIS_CHECKOUT } from '../shipped/bench.ts'
import { FEATURES, startSurroundings } from '../shipped/features.ts'
import { bareProxies, direct, measureCosts, type Row } from '../shipped/measure.ts'
import { featureTarget } from '../shipped/portico.ts'
import { KINDS } from '../shipped/work.ts'
import { externalTarget, installedPeers } from './peers.ts'
import { formatTables, type Results } from './tables.ts'

const FIRST_PORT = 9_100
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    starts: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '2' },
    warm: { type: 'string', default: '20000' },
    idle: { type: 'string', default: '2000' },
    eras: { type: 'string', default: 'legacy,modern' },
    json: { type: 'string' },
  },
})
prepareResults(values.json)
const external = positionals.map(externalTarget)
const extent = {
  ...{ eras: values.eras.split(',') as Era[], kinds: KINDS, idle: Number(values.idle) },
  ...{ starts: Number(values.starts), seconds: Number(values.seconds), warm: Number(values.warm) },
  firstPort: external.length === 0 ? undefined : FIRST_PORT,
}

/** Keeps three digits after the point. */
const roundRow = (row: Row): Row =>
  JSON.parse(JSON.stringify(row, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value)))

async function measure(): Promise<readonly Row[]> {
  const surroundings = await startSurroundings()
  const rows: Row[] = []
  try {
    await runBench(async ({ shipped, directory }) => {
      const features = FEATURES.map((feature) =>
        featureTarget({ name: `portico ${feature}`, shipped, directory }, feature, surroundings),
      )
      const targets = [direct, ...bareProxies, ...features, ...installedPeers(directory), ...external]
      rows.push(...(await measureCosts(targets, extent, () => undefined)))
    })
  } finally {
    surroundings.close()
  }
  return rows
}

function measureIdle(file: string): Results['idle'] {
  const script = join(THIS_CHECKOUT, 'bench/sidecar/run.ts')
  const { status } = spawnSync(process.execPath, [script, values.starts, '--json', file], { stdio: 'inherit' })
  if (status !== 0) throw new Error('bench/sidecar failed')
  return JSON.parse(readFileSync(file, 'utf8'))
}

const load = loadavg()[0] as number
const rows = (await measure()).map(roundRow)
const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: THIS_CHECKOUT, encoding: 'utf8' }).trim()
const results: Results = {
  command: `make bench ARGS="compare ${process.argv.slice(2).join(' ')}"`,
  date: new Date().toISOString().slice(0, 10),
  commit,
  machine: {
    ...{ cpu: cpus()[0]?.model ?? '', cores: cpus().length, memoryGiB: Math.round(totalmem() / 2 ** 30) },
    ...{ node: process.version, linux: release(), loadBefore: Number(load.toFixed(1)) },
  },
  extent: { starts: extent.starts, seconds: extent.seconds, warm: extent.warm, idle: extent.idle },
  rows,
  ...(values.json !== undefined && { idle: measureIdle(values.json) }),
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results)}\n`)
console.log(formatTables(results))
