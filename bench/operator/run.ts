/**
 * Measures the operator on a real API server: 500 MCPRemoteProxies, 50 VirtualMCPServers and 20 configs until all are
 * reconciled; a change of a config that 200 of them name; a restart without changes; an idle minute. There are no
 * controllers, so pods neither come nor go. `--help` tells how it is called.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { NODE_FLAGS } from '../../build/node-flags.ts'
import { startCodes } from '../../build/start.ts'
import { ApiServer } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import { type ControlPlane, startControlPlane } from '../../test/cluster/support/control-plane.ts'
import {
  eventually,
  installOperator,
  OPERATOR_USER,
  type OperatorProcess,
  operatorKubeconfig,
  startOperator,
} from '../../test/cluster/support/operator-process.ts'
import { setUp } from '../../test/setup/index.ts'
import { listNeeds } from '../../test/setup/needs.ts'
import { measureBeside } from './beside.ts'
import { changeConfig, countUnreconciled, create, manifests } from './objects.ts'
import { Requests } from './requests.ts'
import { readUsage } from './usage.ts'

const root = join(import.meta.dirname, '../..')
const PROGRAM = [...NODE_FLAGS, join(root, 'dist/start.cjs')]
const HELP = `usage: node bench/operator/run.ts [--proxies=500] [--gateways=50] [--configs=20] [--changed=200] [--idle=60]

Four times that and more: --proxies=1800 --gateways=200 --configs=500 --changed=1000

Beside another commit, three runs of each in turn on a machine with nothing else to do (about fifteen minutes):

  node bench/operator/run.ts --before=COMMIT    [--runs=3] [what a run is given, as above]

COMMIT is whatever git takes for one, such as HEAD~1, or the folder of another checkout with its node_modules. Time, CPU of
the operator and of the control plane, requests and memory of each phase are printed as \`before | after\`, with the ratio of
the medians; it ends with 1 where this checkout lost: each of its runs was above each one before, by more than 3 %.
`
const { values } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h', default: false },
    before: { type: 'string' },
    runs: { type: 'string', default: '3' },
    proxies: { type: 'string', default: '500' },
    gateways: { type: 'string', default: '50' },
    configs: { type: 'string', default: '20' },
    changed: { type: 'string', default: '200' },
    idle: { type: 'string', default: '60' },
  },
})
const amounts = {
  proxies: Number(values.proxies),
  gateways: Number(values.gateways),
  configs: Number(values.configs),
  ofTheChanged: Number(values.changed),
}

interface Measured {
  readonly plane: ControlPlane
  readonly api: ApiServer
  readonly operator: () => OperatorProcess
}

/** CPU seconds of API server and etcd so far: with the operator's they bound the time of a phase. */
const readCpu = ({ directory }: ControlPlane): number =>
  ['kube-apiserver', 'etcd']
    .map((name) => readUsage(Number(readFileSync(join(directory, `${name}.pid`), 'utf8'))).cpu)
    .reduce((sum, cpu) => sum + cpu)

/** Acts, waits until the operator is quiet and all objects are reconciled, and prints the cost. */
async function phase(title: string, { plane, api, operator }: Measured, act: () => Promise<unknown>): Promise<void> {
  const before = operator().exited ? 0 : readUsage(operator().pid).cpu
  const planeBefore = readCpu(plane)
  const requests = new Requests(plane)
  await act()
  // Not asked for before it is quiet: lists of everything take a sixth of the API server's time.
  await requests.quiet()
  const ofPlane = readCpu(plane) - planeBefore
  await eventually(async () => (await countUnreconciled(api)) === 0, 'all are reconciled', 300_000)
  const seconds = await requests.quiet()
  const { cpu, rss, peak, own } = readUsage(operator().pid)
  const memory = `${rss.toFixed(0)} MiB (${own.toFixed(0)} its own), ${peak.toFixed(0)} at its highest`
  const times = `${(cpu - before).toFixed(1)} CPU s (${ofPlane.toFixed(1)} of the control plane)`
  console.log(`\n${title}`)
  console.log(`  ${seconds.toFixed(1)} s, ${times}, ${requests.summary()}, ${memory}`)
  for (const line of requests.table()) console.log(line)
}

async function measure(plane: ControlPlane): Promise<void> {
  execFileSync(process.execPath, [join(root, 'build/bundle.ts'), join(root, 'dist')], { stdio: 'inherit' })
  for (const [name, code] of await startCodes(join(root, 'dist'))) writeFileSync(join(root, 'dist', name), code)
  await installOperator(plane)
  const objects = manifests(amounts)
  // The API server holds back the first creates of a kind for two seconds after its definition, whoever asks.
  for (const one of new Map(objects.map((object) => [object.kind, object])).values()) plane.readRefusal(one)
  const config = loadKubeConfig(plane.kubeconfig)
  const api = new ApiServer(config, 'bench')
  const kubeconfig = operatorKubeconfig(plane)
  const start = async () => {
    const started = await startOperator(kubeconfig, ['--leader-elect'], {}, PROGRAM)
    await started.ready()
    return started
  }
  let operator = await start()
  const measured = { plane, api, operator: () => operator }
  try {
    const total = amounts.proxies + amounts.gateways
    await phase(
      `${amounts.proxies} proxies, ${amounts.gateways} gateways, ${amounts.configs} configs from nothing`,
      measured,
      () => create(api, objects),
    )
    await phase(`a config of ${Math.min(amounts.ofTheChanged, total)} of them changed`, measured, () =>
      changeConfig(api),
    )
    await operator.stop()
    await phase('a restart with nothing changed', measured, async () => {
      operator = await start()
    })
    const idle = Number(values.idle)
    await phase(`${idle} s in which nothing happens`, measured, () => delay(idle * 1000))
  } finally {
    await operator.stop()
    await config.closePool()
  }
}

async function main(): Promise<number> {
  const { help, before, runs, ...rest } = values
  if (help) {
    console.log(HELP.trimEnd())
    return 0
  }
  if (before !== undefined) {
    const args = Object.entries(rest).map(([name, value]) => `--${name}=${value}`)
    return (await measureBeside(before, Number(runs), args)) ? 0 : 1
  }
  await setUp(listNeeds(['bench/operator/run.ts']))
  const plane = await startControlPlane({ controllers: false, auditReadsOf: [OPERATOR_USER] })
  try {
    await measure(plane)
  } finally {
    await plane.stop()
  }
  return 0
}

process.exitCode = await main()
