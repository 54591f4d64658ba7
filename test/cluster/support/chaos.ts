/**
 * Cuts, freezes and refuses the operator's connections at random while manifests come, change and go; then everything
 * must be as if nothing had happened. Settles with what was done; throws with what is not as it should be.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { CutProxy } from '../../support/network/cut-proxy.ts'
import type { ControlPlane } from './control-plane.ts'
import { gateway, group, type Manifest, telemetry, yaml } from './manifests.ts'
import { eventually } from './operator-process.ts'

const NAMES = Array.from({ length: 12 }, (_, index) => `chaos-${index}`)
const CONFIGS = ['left', 'right']

const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)] as T

/** What should be there: for each gateway its telemetry config and the tool that its filter lets through. */
type Wanted = Map<string, { config: string; tool: string }>

const manifestOf = (name: string, { config, tool }: { config: string; tool: string }): Manifest => {
  const manifest = gateway(name, config)
  manifest.spec['config'] = { aggregation: { tools: [{ workload: 'everything', filter: [tool] }] } }
  return manifest
}

function change(plane: ControlPlane, wanted: Wanted, step: number): void {
  const name = pick(NAMES)
  if (wanted.has(name) && Math.random() < 0.3) {
    wanted.delete(name)
    plane.kubectl(['delete', 'vmcp', name, '--wait=false'])
    return
  }
  const state = { config: pick(CONFIGS), tool: `tool-${step}` }
  wanted.set(name, state)
  plane.kubectl(['apply', '-f', '-'], { input: yaml(manifestOf(name, state)) })
}

async function disturb(relay: CutProxy): Promise<void> {
  const kind = pick(['cut', 'freeze', 'refuse'] as const)
  relay[kind]()
  if (kind !== 'cut') await delay(200 + Math.random() * 2500)
  relay.thaw()
  // A frozen connection that is thawed goes on; now and then it is cut instead.
  if (kind === 'freeze' && Math.random() < 0.5) relay.cut()
}

export async function chaos(
  plane: ControlPlane,
  relay: CutProxy,
  seconds: number,
): Promise<{ changes: number; disturbances: number }> {
  plane.kubectl(['apply', '-f', '-'], { input: yaml(group(), ...CONFIGS.map(telemetry)) })
  const wanted: Wanted = new Map()
  const end = Date.now() + seconds * 1000
  let disturbances = 0
  const disturbing = (async () => {
    while (Date.now() < end) {
      await disturb(relay)
      disturbances += 1
      await delay(Math.random() * 1500)
    }
  })()
  let changes = 0
  while (Date.now() < end) {
    change(plane, wanted, changes)
    changes += 1
    await delay(Math.random() * 600)
  }
  await disturbing
  relay.thaw()
  await converged(plane, wanted)
  return { changes, disturbances }
}

async function converged(plane: ControlPlane, wanted: Wanted): Promise<void> {
  const read = (kind: string) => JSON.parse(plane.kubectl(['get', kind, '-o', 'json'])).items as any[]
  const names = [...wanted.keys()].sort()
  const childNames = (kind: string, suffix: string) =>
    read(kind)
      .map((item) => item.metadata.name as string)
      .filter((name) => name.startsWith('chaos-') && name.endsWith(suffix))
      .map((name) => name.slice(0, -suffix.length))
      .sort()
  await eventually(
    () => {
      const configMaps = read('configmaps')
      for (const [name, { tool }] of wanted) {
        const config = configMaps.find(({ metadata }) => metadata.name === `${name}-vmcp-config`)
        if (!config?.data['gateway.yaml'].includes(`- ${tool}\n`))
          throw new Error(`${name}: its configuration lacks ${tool}`)
      }
      for (const config of read('mcpotel')) {
        const users = names.filter((name) => wanted.get(name)?.config === config.metadata.name)
        const told = (config.status?.referencingWorkloads ?? []).map((one: any) => one.name).sort()
        if (told.join() !== users.join()) throw new Error(`${config.metadata.name}: ${told} instead of ${users}`)
      }
      for (const [kind, suffix] of [
        ['deployments', '-vmcp'],
        ['configmaps', '-vmcp-config'],
      ] as const) {
        const there = childNames(kind, suffix)
        if (there.join() !== names.join()) throw new Error(`${kind}: ${there} instead of ${names}`)
      }
      return true
    },
    'everything is as the manifests say',
    120_000,
  )
}
