/** Changed telemetry, of an MCPTelemetryConfig or a registry, reaches running pods without replacing them. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type TemporaryFolder, temporaryFolder } from '../../support/folder.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { porticoProgram } from '../../support/portico-program.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../../support/telemetry/otlp-receiver.ts'
import { unwrap } from '../../support/unwrap.ts'
import { IN_CLUSTER, newCluster } from '../support/cluster.ts'
import { gateway, group, manifest, proxy, server } from '../support/manifests.ts'
import { eventually } from '../support/operator-process.ts'
import { givePodAddress, type PodAddress } from '../support/pod-address.ts'
import { waitUntilStill } from '../support/stands-still.ts'

const [program, ...options] = porticoProgram
/** The longest time until a change is in force in every pod, because all of them run on one busy machine. */
const REACHED_MS = 180_000
const workloads = { everything: 'gateway', remote: 'gateway', front: 'gateway', catalog: 'registry' } as const
type Workload = keyof typeof workloads

const cluster = newCluster()
const { apply } = cluster
let folder: TemporaryFolder
let first: OtlpReceiver
let second: OtlpReceiver
const pods = new Map<Workload, RunningPod>()

const list = (kind: string, instance: string) =>
  cluster.list(kind, { labels: `app.kubernetes.io/instance=${instance}` })
const configMap = (instance: string) =>
  list('configmaps', instance).find(({ metadata }) => metadata.annotations?.['portico.dev/config-hash'] !== undefined)

/** The program of a workload's pod, on this machine. Its files change when the pod is touched, as with a kubelet. */
class RunningPod {
  readonly uid: string
  readonly url: Promise<string>
  adminUrl = ''
  address: PodAddress | undefined
  readonly #instance: string
  readonly #file: string
  readonly #child: ChildProcess
  #touched = ''
  #timer: NodeJS.Timeout

  constructor(instance: Workload) {
    this.#instance = instance
    this.uid = this.#pod.metadata.uid
    this.#file = join(folder.path, `${instance}.yaml`)
    this.#mount()
    const listeners = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0']
    const args = [...options, 'serve', workloads[instance], '--config', this.#file]
    this.#child = spawn(program, [...args, ...listeners], {
      env: {
        ...process.env,
        PORTICO_STATE_DIR: join(folder.path, `${instance}-state`),
        OTEL_BSP_SCHEDULE_DELAY: '100',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const lines = createInterface(this.#child.stderr as NodeJS.ReadableStream)
    this.url = new Promise((resolve) => {
      lines.on('line', (line) => {
        const { url, adminUrl, admin } = JSON.parse(line)
        if (url === undefined || this.adminUrl !== '') return
        this.adminUrl = adminUrl ?? admin
        resolve(url)
      })
    })
    this.#timer = setInterval(() => this.#mount(), 300)
  }

  get #pod(): LiveObject {
    return unwrap(list('pods', this.#instance)[0])
  }

  get runsOn(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && this.#pod.metadata.uid === this.uid
  }

  #mount(): void {
    const touched = JSON.stringify(this.#pod.metadata.annotations ?? {})
    if (touched === this.#touched) return
    this.#touched = touched
    const [text] = Object.values(unwrap(configMap(this.#instance)).data) as [string]
    writeFileSync(`${this.#file}.new`, text)
    renameSync(`${this.#file}.new`, this.#file)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.address?.close()
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await ended
  }
}

const openTelemetry = (receiver: OtlpReceiver) => ({
  enabled: true,
  endpoint: receiver.url,
  insecure: true,
  tracing: { enabled: true, samplingRate: '1.0' },
})
const config = (receiver: OtlpReceiver) =>
  manifest('MCPTelemetryConfig', 'otel', { openTelemetry: openTelemetry(receiver) })
const catalog = (receiver: OtlpReceiver) =>
  manifest('MCPRegistry', 'catalog', {
    sources: [{ name: 'own', managed: {} }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
    telemetry: { openTelemetry: openTelemetry(receiver) },
  })
const readConfig = () => cluster.read('mcpotel', 'otel')

/** Waits until each workload has sent a span to a receiver. */
async function waitForReport(receiver: OtlpReceiver): Promise<void> {
  const names = () => new Set(receiver.spans.map(({ resource }) => resource['service.name']))
  await eventually(
    async () => {
      for (const [name, pod] of pods) {
        const path = workloads[name] === 'registry' ? '/registry/main/v0.1/servers' : '/mcp'
        await (await fetch((await pod.url) + path, { method: path === '/mcp' ? 'POST' : 'GET' })).text()
      }
      return names().size === 4
    },
    'a span of each',
    REACHED_MS,
  )
  assert.equal([...names()].sort(), Object.keys(workloads).sort())
}

test.before(async () => {
  folder = temporaryFolder()
  first = await startOtlpReceiver()
  second = await startOtlpReceiver()
  await cluster.install()
  // As in a cluster, the operator polls pods at their own addresses.
  await cluster.startOperator([], IN_CLUSTER)
  apply(
    config(first),
    group(),
    server('everything', 'otel'),
    proxy('remote', 'otel'),
    gateway('front', 'otel'),
    catalog(first),
  )
  let net = 100
  for (const name of Object.keys(workloads) as Workload[]) {
    await eventually(() => list('pods', name).length > 0 && configMap(name) !== undefined, `a pod of ${name}`)
    const pod = new RunningPod(name)
    pods.set(name, pod)
    await pod.url
    pod.address = await givePodAddress(cluster.plane, name, net++, () => pod.adminUrl)
  }
})

test.after(async () => {
  await Promise.all([...pods.values()].map((pod) => pod.close()))
  await cluster.stop()
  await Promise.all([first.close(), second.close()])
  folder[Symbol.dispose]()
})

test('a changed endpoint is used by all pods without replacing one, and the status stays true', async () => {
  await waitForReport(first)
  const before = readConfig()
  const seen: LiveObject[] = []
  const watching = setInterval(() => seen.push(readConfig()), 500)
  apply(config(second), catalog(second))
  await waitForReport(second)
  clearInterval(watching)
  for (const [name, pod] of pods) assert.ok(pod.runsOn, name)
  const after = await eventually(() => {
    const now = readConfig()
    return now.status.configHash !== before.status.configHash && now
  }, 'another hash')
  const referring = ['MCPRemoteProxy/remote', 'MCPServer/everything', 'VirtualMCPServer/front']
  for (const { metadata, status } of [before, ...seen, after]) {
    assert.equal(status.referencingWorkloads.map(({ kind, name }) => `${kind}/${name}`).sort(), referring)
    // The hash belongs to the generation that the status reports.
    const isNew = status.observedGeneration === after.metadata.generation
    assert.is(status.configHash, (isNew ? after : before).status.configHash)
    assert.ok(status.observedGeneration <= metadata.generation)
  }
  // Nothing is sent to the earlier endpoint any more.
  // An earlier exporter may still be sending its last spans while the new ones already send.
  await waitUntilStill(() => first.spans.length)
  first.spans.length = 0
  second.spans.length = 0
  await waitForReport(second)
  assert.equal(first.spans, [])
})

test.run()
