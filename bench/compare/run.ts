/**
 * The same work through any MCP endpoints, in one run and in turn: calls, lists, new sessions, idle sessions, in both eras,
 * before backends of its own. It tells requests a second and a CPU-second, p50 and p99, and memory; a wrong answer is an
 * error. Measured are a backend itself, the least that a proxy on node:http does, Portico with nothing on, with each
 * feature and with all, those gateways of others that are installed (bench/compare/peers.ts has their configuration and
 * command), and what is named: NAME=URL,pid=N[,era=modern][,separator=/]. Such an endpoint has to stand before the backends
 * b0 and b1 at http://127.0.0.1:9100/mcp and 9101 (9102 and 9103 in the modern era), and may be started once they run.
 *
 * Usage: run.ts [NAME=URL,pid=N …] [--starts 9] [--seconds 2] [--warm 20000] [--idle 2000] [--eras legacy,modern]
 *   [--json FILE: with what an idle proxy takes]
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Era } from '../gateway/requests.ts'
import { runBench, THIS_CHECKOUT } from '../shipped/bench.ts'
import { FEATURES, startSurroundings } from '../shipped/features.ts'
import { bareProxies, direct, measureCosts, type Row } from '../shipped/measure.ts'
import { featureTarget } from '../shipped/portico.ts'
import { KINDS } from '../shipped/work.ts'
import { externalTarget, installedPeers } from './peers.ts'
import { type Results, tablesOf } from './tables.ts'

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
const external = positionals.map(externalTarget)
const extent = {
  ...{ eras: values.eras.split(',') as Era[], kinds: KINDS, idle: Number(values.idle) },
  ...{ starts: Number(values.starts), seconds: Number(values.seconds), warm: Number(values.warm) },
  firstPort: external.length === 0 ? undefined : FIRST_PORT,
}

/** A thousandth of a value is beyond what is measured. */
const rounded = (row: Row): Row =>
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

/** What an idle proxy takes, as bench/sidecar tells it. */
function measureIdle(file: string): Results['idle'] {
  const script = join(THIS_CHECKOUT, 'bench/sidecar/run.ts')
  const { status } = spawnSync(process.execPath, [script, values.starts, '--json', file], { stdio: 'inherit' })
  if (status !== 0) throw new Error('bench/sidecar failed')
  return JSON.parse(readFileSync(file, 'utf8'))
}

const load = loadavg()[0] as number
const rows = (await measure()).map(rounded)
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
console.log(tablesOf(results))
