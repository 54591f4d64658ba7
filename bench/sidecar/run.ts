/**
 * Measures one idle proxy, started as in the image, beside a Node that does nothing: time until ready, and private
 * memory once settled. Goals: 150 ms, 30 MiB. Usage: run.ts [starts] [--json FILE]
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { canonicalYaml } from '../../operator/render/object/canonical.ts'
import { estimate } from '../gateway/estimate.ts'
import { prepareResults, runBench } from '../shipped/bench.ts'
import { readUsage, startProcess } from '../shipped/process.ts'

const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'string' } } })
prepareResults(values.json)
const STARTS = Number(positionals[0] ?? 9)
const GOALS = { readyMs: 150, mebibytes: 30 }
/** After this time an idle process has released the memory of its start. */
const SETTLED_MS = 3_500

interface Measured {
  readonly ms: number
  readonly cpuMs: number
  readonly mebibytes: number
}

async function measure(command: readonly string[], ready: RegExp): Promise<Measured> {
  const started = performance.now()
  const { pid, end } = await startProcess(command, { NODE_ENV: 'production' }, ready)
  const ms = performance.now() - started
  const cpuMs = readUsage(pid).cpu / 1e3
  await sleep(SETTLED_MS)
  const mebibytes = readUsage(pid).own / 2 ** 20
  end()
  return { ms, cpuMs, mebibytes }
}

/** Runs the programs in turn and returns the results of all starts. */
async function inTurn(programs: readonly { readonly command: readonly string[]; readonly ready: RegExp }[]) {
  const all = programs.map((): Measured[] => [])
  for (let left = STARTS; left > 0; left--)
    for (const [index, { command, ready }] of programs.entries()) all[index]?.push(await measure(command, ready))
  return all
}

function tell(name: string, all: readonly Measured[]) {
  const estimateField = (what: keyof Measured) => estimate(all.map((one) => one[what]))
  const [ms, cpuMs, mebibytes] = [estimateField('ms'), estimateField('cpuMs'), estimateField('mebibytes')]
  const spread = `${mebibytes.least.toFixed(1)} to ${mebibytes.most.toFixed(1)}`
  console.log(
    `${name.padEnd(12)} ready after ${ms.median.toFixed(0)} ± ${ms.error.toFixed(0)} ms, ` +
      `${cpuMs.median.toFixed(0)} ± ${cpuMs.error.toFixed(0)} ms of CPU; ` +
      `${mebibytes.median.toFixed(1)} ± ${mebibytes.error.toFixed(1)} MiB of its own (${spread})`,
  )
  return { name, ms, cpuMs, mebibytes }
}

await runBench(async ({ shipped, directory }) => {
  const config = join(directory, 'gateway.yaml')
  const backends = [{ name: 'b', url: 'http://127.0.0.1:9/mcp' }]
  const incomingAuth = { type: 'anonymous' }
  writeFileSync(config, canonicalYaml({ name: 'p', namespace: 'default', role: 'proxy', incomingAuth, backends }))
  const bare = shipped.command.slice(0, -1)
  const listeners = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
  const [ofBare = [], ofProxy = []] = await inTurn([
    { command: [...bare, '-e', 'console.log("ready"); setInterval(() => {}, 1000)'], ready: /ready/ },
    {
      command: [...shipped.command, 'serve', 'gateway', '--config', config, ...listeners],
      ready: /the gateway serves/,
    },
  ])
  const results = [tell('bare Node', ofBare), tell('a proxy', ofProxy)]
  const { ms, mebibytes } = results[1] as ReturnType<typeof tell>
  const formatMiss = ({ median, error }: { median: number; error: number }, goal: number) =>
    median - (Number.isNaN(error) ? 0 : error) > goal ? '; missed' : ''
  console.log(
    `goals: ${GOALS.readyMs} ms${formatMiss(ms, GOALS.readyMs)}, ` +
      `${GOALS.mebibytes} MiB${formatMiss(mebibytes, GOALS.mebibytes)}`,
  )
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results)}\n`)
})
