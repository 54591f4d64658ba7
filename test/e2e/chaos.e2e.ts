/**
 * Kills the operator, the API server, etcd, the kubelet and containers of pods, while objects are created, changed and
 * deleted and clients call a gateway. Afterwards the cluster must be as the manifests say, with each object once. Takes
 * one minute, or CHAOS_SECONDS (`make chaos`); CHAOS_SEED repeats the changes and kills of an earlier run.
 */
import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { resourceNamed } from '../cluster/support/resources.ts'
import { connect } from '../support/gateway/clients.ts'
import {
  admin,
  beside,
  createNamespace,
  installOperator,
  kubectl,
  namesIn,
  until,
  untilReady,
} from '../support/operator/e2e-cluster.ts'
import { createNumbers } from '../support/random.ts'
import { Caller } from './chaos/caller.ts'
import { type Change, Changes, readGroupName } from './chaos/changes.ts'
import { checkConverged, checkRestarts, renderObjects } from './chaos/converged.ts'
import { Kills, killComponent } from './chaos/kills.ts'

const SECONDS = Number(process.env['CHAOS_SECONDS'] ?? 60)
const SEED = Number(process.env['CHAOS_SEED'] ?? randomInt(1 << 30))
const NAMESPACE = 'chaos'
const OPERATORS = 'portico-system'
/** Milliseconds until everything must have recovered. */
const RECOVERY = 400_000
/** The least number of changes, however long they take. */
const LEAST_CHANGES = SECONDS / 10

const started = performance.now()
const tell = (text: string) => console.log(`progress: ${Math.round((performance.now() - started) / 1000)} s: ${text}`)

const changes = new Changes(NAMESPACE, SEED)
const kills = new Kills(SEED + 1, { 'data plane': NAMESPACE, operator: OPERATORS })
let uninstall = () => {}
let callers: readonly Caller[] = []
let applied = 0

/** Makes a change, and repeats it until the API server confirms it; a change without an answer may have been made. */
async function make({ what, apply, remove }: Change): Promise<void> {
  let last = ''
  await until(
    `the API server takes: ${what}; ${last}`,
    NAMESPACE,
    async () => {
      try {
        for (const { metadata, ...one } of apply) {
          const object = { ...one, metadata: { ...metadata, namespace: NAMESPACE } }
          await beside.api.apply(resourceNamed(one.kind), object, 'kubectl')
        }
        for (const { kind, metadata } of remove) await beside.api.remove(resourceNamed(kind), NAMESPACE, metadata.name)
        return true
      } catch (error) {
        last = String(error)
        return false
      }
    },
    RECOVERY,
  )
  applied += 1
}

/** Repeats a function at random intervals, in milliseconds, until the time is over and it has run often enough. */
async function repeatUntil(isOver: () => boolean, seed: number, least: number, most: number, act: () => Promise<void>) {
  const below = createNumbers(seed)
  while (!isOver()) {
    await act()
    await delay(least + below(most - least))
  }
}

test(`the workloads become ready (CHAOS_SEED=${SEED})`, async () => {
  tell(`CHAOS_SEED=${SEED}`)
  uninstall = await installOperator('cluster')
  createNamespace(NAMESPACE)
  await make(changes.first())
  const url = await untilReady(NAMESPACE, 'VirtualMCPServer', 'front')
  callers = (['modern', 'legacy'] as const).map((era) => new Caller(url, era))
  await until('both eras are answered', NAMESPACE, () => callers.every(({ answered }) => answered > 0))
  tell('calls are answered')
})

test('processes are killed under changes', async () => {
  assert.ok(callers.length > 0, 'the workloads became ready')
  const end = performance.now() + SECONDS * 1000
  const isOver = () =>
    performance.now() > end && applied >= LEAST_CHANGES && [...kills.counts.values()].every((count) => count > 0)
  await Promise.all([
    repeatUntil(isOver, SEED + 2, 500, 2500, () => make(changes.next())),
    repeatUntil(isOver, SEED + 3, 1000, 5000, async () => {
      const killed = await kills.next()
      if (killed !== undefined) tell(`${killed} killed after ${applied} changes`)
    }),
  ])
  tell(`${applied} changes; ${[...kills.counts].map(([kind, count]) => `${count} ${kind}`).join(', ')}`)
})

test('everything converges, without lost or duplicate objects', async () => {
  tell(`waits for ${changes.wanted.length} objects after ${applied} changes`)
  // The garbage collector of Kubernetes may miss deleted owners while the API server is down; a restarted one sees them.
  assert.ok(killComponent('kube-controller-manager'))
  const children = renderObjects(NAMESPACE, changes.wanted)
  const end = performance.now() + RECOVERY
  for (let last = ''; ; ) {
    const problem = await checkConverged(NAMESPACE, changes.wanted, children).then(
      () => undefined,
      (error: Error) => error.message.slice(0, 180),
    )
    if (problem === undefined) break
    if (problem !== last) tell(problem)
    if (performance.now() > end) await until(problem, NAMESPACE, () => false, 0)
    last = problem
    await delay(1000)
  }
  tell('converged')
})

test('only killed containers of workloads were restarted', async () => {
  // Restarts of the operator are not counted: on a node that is this busy its probes may time out.
  await checkRestarts(NAMESPACE, kills.containers, kills.counts.get('kubelet') ?? 0)
})

test('calls are answered again, and none was ever answered wrongly', async () => {
  const before = callers.map(({ answered }) => answered)
  await until('both eras are answered', NAMESPACE, () =>
    callers.every(({ answered }, index) => answered > (before[index] ?? 0) + 3),
  )
  for (const caller of callers) await caller.stop()
  for (const { wrong } of callers) assert.equal(wrong, [])
  const summary = callers.map(({ answered, failed }) => `${answered} answered, ${failed} failed`).join('; ')
  tell(`calls: ${summary}; kills: ${[...kills.counts].map(([kind, count]) => `${count} ${kind}`).join(', ')}`)
})

test('each gateway shows the tools of the servers in its group, and no other', async () => {
  for (const { kind, metadata, spec } of changes.wanted) {
    if (kind !== 'VirtualMCPServer') continue
    // Servers behind a proxy have private addresses here, to which a proxy does not connect.
    const servers = changes.wanted.filter(
      (one) => one.kind === 'MCPServer' && readGroupName(one) === spec.groupRef?.name,
    )
    const names = servers.map((one) => one.metadata.name).sort()
    const { status } = admin.read(kind, metadata.name, NAMESPACE)
    await until(`${metadata.name} shows the tools of ${names}`, NAMESPACE, async () => {
      // The node may learn of the last new pod a moment after the API server does.
      const connected = await connect(status.url, 'modern').catch(() => undefined)
      if (connected === undefined) return false
      const { client } = connected
      try {
        const { tools } = await client.listTools()
        const prefixes = [...new Set(tools.map(({ name }) => name.split('_')[0] as string))].sort()
        return prefixes.join() === names.join()
      } finally {
        await client.close()
      }
    })
  }
})

test('the operator’s children are deleted with their objects', async () => {
  const kinds = 'vmcp,mcpserver,mcpremoteproxies,mcpg,mcpotel'
  kubectl(['delete', kinds, '--all', '--namespace', NAMESPACE, '--timeout', '240s'])
  const children = 'deployments,services,networkpolicies,pods'
  await until('children are gone', NAMESPACE, () => namesIn(NAMESPACE, children).length === 0)
  uninstall()
})

test.after(async () => {
  for (const caller of callers) await caller.stop()
  await beside.close()
})

test.run()
