/**
 * Cuts, freezes and refuses the operator's connections at random, and kills the operator, the API server and etcd,
 * while manifests are created, changed and deleted. Afterwards every object must be as the manifests say. Returns what
 * was disturbed; throws an Error that lists the differences.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import type { CutProxy } from '../../support/network/cut-proxy.ts'
import type { ControlPlane } from './control-plane.ts'
import { gateway, group, type Manifest, telemetry } from './manifests.ts'
import { eventually } from './operator-process.ts'
import { resourceNamed } from './resources.ts'

const NAMES = Array.from({ length: 12 }, (_, index) => `chaos-${index}`)
const CONFIGS = ['left', 'right']
const GATEWAYS = resourceNamed('vmcp')

const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)] as T

/** The expected gateways: for each, its telemetry config and the tool that its filter allows. */
type WantedObjects = Map<string, { config: string; tool: string }>

const buildManifest = (name: string, { config, tool }: { config: string; tool: string }): Manifest => {
  const manifest = gateway(name, config)
  manifest.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: [tool] }] } }
  return manifest
}

/** The parts that are disturbed, and a function that restarts the operator. */
export interface DisturbedPlane {
  readonly plane: ControlPlane
  readonly relay: CutProxy
  readonly killOperator: () => Promise<void>
}

/** Makes one change, and repeats it until the API server confirms it; a change without an answer may have been made. */
async function change(api: ApiServer, wanted: WantedObjects, step: number): Promise<void> {
  const name = pick(NAMES)
  const isDeleted = wanted.has(name) && Math.random() < 0.3
  const state = { config: pick(CONFIGS), tool: `tool-${step}` }
  if (isDeleted) wanted.delete(name)
  else wanted.set(name, state)
  await eventually(
    async () => {
      if (isDeleted) await api.remove(GATEWAYS, 'default', name)
      else await api.apply(GATEWAYS, { apiVersion: 'portico.dev/v1beta1', ...buildManifest(name, state) }, 'kubectl')
      return true
    },
    `the API server takes a change of ${name}`,
    180_000,
  )
}

const DISTURBANCES = ['cut', 'freeze', 'refuse', 'kill the operator', 'kill the API server', 'kill etcd'] as const
type Disturbance = (typeof DISTURBANCES)[number]

async function disturb(kind: Disturbance, { plane, relay, killOperator }: DisturbedPlane): Promise<void> {
  switch (kind) {
    case 'kill the operator':
      return killOperator()
    case 'kill the API server':
      await plane.stopApiServer('SIGKILL')
      return plane.startApiServer()
    case 'kill etcd':
      return plane.killEtcd()
    default:
      relay[kind]()
      if (kind !== 'cut') await delay(200 + Math.random() * 2500)
      relay.thaw()
      // A frozen connection usually continues when it is thawed, and is sometimes cut instead.
      if (kind === 'freeze' && Math.random() < 0.5) relay.cut()
  }
}

/** Connections are cut far more often than processes are killed; each kind of disturbance comes once at least. */
function* sequence(): Generator<Disturbance, never> {
  yield* [...DISTURBANCES].sort(() => Math.random() - 0.5)
  while (true) yield Math.random() < 0.8 ? pick(DISTURBANCES.slice(0, 3)) : pick(DISTURBANCES.slice(3))
}

/** Runs for `seconds` at least, and longer if a slow machine has made fewer than `leastChanges` by then. */
export async function chaos(
  disturbed: DisturbedPlane,
  { seconds, leastChanges }: { readonly seconds: number; readonly leastChanges: number },
): Promise<{ changes: number; disturbances: ReadonlyMap<Disturbance, number> }> {
  const { plane, relay } = disturbed
  plane.apply(group(), ...CONFIGS.map(telemetry))
  const wanted: WantedObjects = new Map()
  const config = loadKubeConfig(plane.kubeconfig)
  // Asynchronous, because this process restarts what was killed, which the API server waits for before it answers.
  const api = new ApiServer(config, 'test')
  const end = Date.now() + seconds * 1000
  const disturbances = new Map<Disturbance, number>()
  let changes = 0
  const isOver = () => Date.now() >= end && disturbances.size === DISTURBANCES.length && changes >= leastChanges
  let failed = false
  const disturbing = (async () => {
    for (const kind of sequence()) {
      await disturb(kind, disturbed)
      disturbances.set(kind, (disturbances.get(kind) ?? 0) + 1)
      if (isOver()) return
      await delay(Math.random() * 1500)
    }
  })()
  disturbing.catch(() => {
    failed = true
  })
  while (!isOver() && !failed) {
    await change(api, wanted, changes)
    changes += 1
    await delay(Math.random() * 600)
  }
  await disturbing
  await config.closePool()
  relay.thaw()
  // The garbage collector of Kubernetes ignores kinds that an API server does not list yet after its start. It keeps
  // owners that are deleted meanwhile in its graph, and their children in the cluster, until it is restarted.
  await plane.restartControllers()
  await waitUntilConverged(plane, wanted)
  return { changes, disturbances }
}

async function waitUntilConverged(plane: ControlPlane, wanted: WantedObjects): Promise<void> {
  const names = [...wanted.keys()].sort()
  const childNames = (kind: string, suffix: string) =>
    plane
      .list(kind)
      .map(({ metadata }) => metadata.name)
      .filter((name) => name.startsWith('chaos-') && name.endsWith(suffix))
      .map((name) => name.slice(0, -suffix.length))
      .sort()
  await eventually(() => {
    const configMaps = plane.list('configmaps')
    for (const [name, { tool }] of wanted) {
      const config = configMaps.find(({ metadata }) => metadata.name === `${name}-vmcp-config`)
      if (!config?.data['gateway.yaml']?.includes(`- ${tool}\n`))
        throw new Error(`${name}: its configuration lacks ${tool}`)
    }
    for (const config of plane.list('mcpotel')) {
      const users = names.filter((name) => wanted.get(name)?.config === config.metadata.name)
      const referrers = (config.status?.referencingWorkloads ?? []).map((one) => one.name).sort()
      if (referrers.join() !== users.join())
        throw new Error(`${config.metadata.name}: ${referrers} instead of ${users}`)
    }
    for (const [kind, suffix] of [
      ['deployments', '-vmcp'],
      ['configmaps', '-vmcp-config'],
    ] as const) {
      const there = childNames(kind, suffix)
      if (there.join() !== names.join()) throw new Error(`${kind}: ${there} instead of ${names}`)
    }
    return true
  }, 'everything is as the manifests say')
}
