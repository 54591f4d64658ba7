/**
 * Tests an upgrade: the operator of another checkout, such as a worktree of the previous commit, reconciles objects of
 * every kind with its CRDs; then this operator takes over. Fails if a pod template changes, which would restart pods.
 * Usage: run.ts DIR, where DIR has its own node_modules.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { setUp } from '../../setup/index.ts'
import { listNeeds } from '../../setup/needs.ts'
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts'
import { type Manifest, yaml } from '../support/manifests.ts'
import { installOperator, OPERATOR_USER, operatorKubeconfig, startOperator } from '../support/operator-process.ts'
import { differences } from './differences.ts'
import { readObjects } from './objects.ts'

/** Both versions use this image, so that the image alone does not change a pod template. */
const OPTIONS = ['--image=portico:upgrade']
const QUIET_MS = 5_000
const DEADLINE_MS = 300_000

const [folder] = process.argv.slice(2)
if (folder === undefined || !existsSync(join(folder, 'cli/main.ts'))) {
  console.error('usage: run.ts DIR, where DIR is another checkout of Portico')
  process.exit(2)
}
const before = resolve(folder)

interface Workload {
  readonly kind: string
  readonly metadata: { readonly namespace: string; readonly name: string }
  readonly spec: { readonly template: unknown }
}

const formatTitle = ({ kind, metadata }: Workload) => `${kind} ${metadata.namespace}/${metadata.name}`

/** Returns the pod templates of all workloads, by title. */
function readTemplates(plane: ControlPlane): ReadonlyMap<string, unknown> {
  const list = plane.kubectl(['get', 'deployments,statefulsets', '-A', '-o', 'json'])
  return new Map((JSON.parse(list).items as Workload[]).map((one) => [formatTitle(one), one.spec.template]))
}

/** Runs an operator until it stops writing. Returns the number of its writes, without Leases and Events. */
async function settle(plane: ControlPlane, checkout: string): Promise<number> {
  const from = plane.writes().length
  const writes = () =>
    plane
      .writes()
      .slice(from)
      .filter(({ user, resource }) => user === OPERATOR_USER && resource !== 'leases' && resource !== 'events')
  const operator = await startOperator(operatorKubeconfig(plane), OPTIONS, {}, [join(checkout, 'cli/main.ts')])
  try {
    await operator.ready()
    const end = Date.now() + DEADLINE_MS
    for (let count = -1, since = Date.now(); Date.now() - since < QUIET_MS; await delay(500)) {
      if (Date.now() > end) throw new Error(`the operator of ${checkout} still writes`)
      if (writes().length === count) continue
      count = writes().length
      since = Date.now()
    }
    return writes().length
  } finally {
    await operator.stop()
  }
}

/** Installs the CRDs and rights of the other checkout. */
function installBefore(plane: ControlPlane): void {
  const crds = join(plane.directory, 'crds-before.yaml')
  writeFileSync(crds, execFileSync(process.execPath, [join(before, 'cli/main.ts'), 'crds'], { maxBuffer: 1 << 28 }))
  plane.kubectl(['apply', '--server-side', '-f', crds])
  plane.kubectl(['wait', '--for=condition=Established', '--timeout=180s', 'crd', '--all'])
  for (const file of ['namespace.yaml', 'rbac.yaml'])
    plane.kubectl(['apply', '-f', join(before, 'operator/deploy', file)])
}

function tryApply(plane: ControlPlane, object: Manifest): boolean {
  try {
    plane.kubectl(['apply', '--server-side', '-f', '-'], { input: yaml(object) })
    return true
  } catch {
    return false
  }
}

/** Returns the number of changed pod templates. */
async function upgrade(plane: ControlPlane): Promise<number> {
  installBefore(plane)
  const objects = readObjects(before)
  for (const namespace of new Set(objects.map(({ metadata }) => metadata.namespace)))
    plane.kubectl(['create', 'namespace', namespace])
  // One by one, because the CRDs already refuse some of them, where the API server can check the rule.
  const taken = objects.filter((object) => tryApply(plane, object))
  console.log(`before: ${taken.length} of ${objects.length} objects, ${await settle(plane, before)} writes`)
  const templates = readTemplates(plane)
  await installOperator(plane)
  const root = resolve(import.meta.dirname, '../../..')
  console.log(`after: ${await settle(plane, root)} writes`)
  const now = readTemplates(plane)
  const changed = [...templates].flatMap(([title, template]) => {
    const found = differences(template, now.get(title))
    return found.length > 0 ? [`${title}\n${found.map((line) => `    ${line}`).join('\n')}`] : []
  })
  for (const text of changed) console.log(text)
  console.log(`${templates.size} workloads, ${changed.length} with another pod template`)
  return templates.size === 0 ? 1 : changed.length
}

await setUp(listNeeds(['test/cluster/upgrade/run.ts']))
const plane = await startControlPlane()
try {
  if ((await upgrade(plane)) > 0) process.exitCode = 1
} finally {
  await plane.stop()
}
