/** Compares a namespace with its expected state. Throws an Error with the differences. */

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { listBeside, listContainers, type Pod } from '../../support/operator/e2e-cluster.ts'
import { PORTICO_IMAGE } from '../../support/operator/e2e-images.ts'
import type { LiveObject } from '../../support/operator/live-object.ts'
import { type Manifest, readConfigName, readGroupName } from './changes.ts'
import { containerKey } from './kills.ts'

const OURS = 'mcpservers,mcpremoteproxies,virtualmcpservers,mcpgroups,mcptelemetryconfigs'
const CHILDREN =
  'deployments,statefulsets,services,configmaps,networkpolicies,poddisruptionbudgets,serviceaccounts,roles,rolebindings,secrets'
/** Objects that Kubernetes itself creates in a namespace. */
const NOBODYS = ['ConfigMap/kube-root-ca.crt', 'ServiceAccount/default']

interface ObjectWithName {
  readonly kind: string
  readonly metadata: { readonly name: string }
}

const buildKey = ({ kind, metadata }: ObjectWithName) => `${kind}/${metadata.name}`

const list = (namespace: string, kinds: string): Promise<readonly LiveObject[]> => listBeside(kinds, namespace)

/** Fails if names differ, or one is there twice. */
function assertSame(what: string, is: readonly string[], should: readonly string[]): void {
  const [there, wanted] = [is, should].map((names) => [...names].sort())
  if (isDeepStrictEqual(there, wanted)) return
  const listExtra = (a: readonly string[] = [], b: readonly string[] = []) =>
    a.filter((name) => !b.includes(name)).join(', ')
  throw new Error(
    `${what}: too many: ${listExtra(there, wanted) || 'one twice'}; missing: ${listExtra(wanted, there) || 'none'}`,
  )
}

/** Returns the path where `whole` lacks something of `part`. Lists have equal lengths; objects may have more members. */
function lacking(part: unknown, whole: unknown, path = ''): string | undefined {
  if (typeof part !== 'object' || part === null) return part === whole ? undefined : path
  if (typeof whole !== 'object' || whole === null) return path
  if (Array.isArray(part) && (!Array.isArray(whole) || part.length !== whole.length)) return path
  for (const [key, value] of Object.entries(part)) {
    const found = lacking(value, (whole as Record<string, unknown>)[key], `${path}/${key}`)
    if (found !== undefined) return found
  }
  return undefined
}

function compare(what: string, is: readonly LiveObject[], should: readonly ObjectWithName[]): void {
  assertSame(what, is.map(buildKey), should.map(buildKey))
  const byKey = new Map(is.map((one) => [buildKey(one), one]))
  for (const one of should) {
    const path = lacking(one, byKey.get(buildKey(one)))
    if (path !== undefined) throw new Error(`${buildKey(one)} is not as it should be at ${path}`)
  }
}

/** Returns the children of manifests, from `portico render`. */
export function renderObjects(namespace: string, wanted: readonly Manifest[]): readonly LiveObject[] {
  const file = join(tmpdir(), 'chaos-wanted.yaml')
  const placed = wanted.map((one) => ({ ...one, metadata: { ...one.metadata, namespace } }))
  writeFileSync(file, placed.map((one) => JSON.stringify(one)).join('\n---\n'))
  const output = execFileSync('bin/portico', ['render', file, '--image', PORTICO_IMAGE], { encoding: 'utf8' })
  return parseAllDocuments(output).map((document) => document.toJS())
}

function readyProblem({ metadata, status }: LiveObject): string | undefined {
  if (metadata.deletionTimestamp) return 'is being deleted'
  if (status?.observedGeneration !== metadata.generation)
    return `observed generation ${status?.observedGeneration} of ${metadata.generation}`
  const ready = status.conditions?.find(({ type }) => type === 'Ready')
  return ready?.status === 'True' ? undefined : `${ready?.reason}: ${ready?.message}`
}

/** Checks that each object exists once, in its last form, and that its latest generation is Ready. */
async function checkObjects(namespace: string, wanted: readonly Manifest[]): Promise<void> {
  const live = await list(namespace, OURS)
  compare('objects', live, wanted)
  for (const one of live) {
    const problem = readyProblem(one)
    if (problem) throw new Error(`${buildKey(one)}: ${problem}`)
  }
  for (const { kind, metadata, status } of live) {
    const users = (refers: (one: Manifest) => string | undefined) =>
      wanted.filter((one) => refers(one) === metadata.name).map(buildKey)
    if (kind === 'MCPTelemetryConfig')
      assertSame(`users of ${metadata.name}`, status.referencingWorkloads.map(userKey), users(readConfigName))
    if (kind === 'MCPGroup') {
      const members = [...status.servers.map((name: string) => `MCPServer/${name}`)]
      members.push(...status.remoteProxies.map((name: string) => `MCPRemoteProxy/${name}`))
      const should = users(readGroupName).filter((user) => !user.startsWith('VirtualMCPServer/'))
      assertSame(`members of ${metadata.name}`, members, should)
    }
  }
}

const userKey = ({ kind, name }: { kind: string; name: string }) => `${kind}/${name}`

/** Checks that each Deployment has one pod of its current template, and that there are no other pods. */
async function checkPods(namespace: string): Promise<void> {
  const [deployments, sets, pods] = await Promise.all([
    list(namespace, 'deployments'),
    list(namespace, 'replicasets'),
    list(namespace, 'pods'),
  ])
  const owner = ({ metadata }: LiveObject) => metadata.ownerReferences?.find(({ controller }) => controller)?.uid
  for (const set of sets)
    if (!deployments.some(({ metadata }) => metadata.uid === owner(set)))
      throw new Error(`${buildKey(set)} is nobody's any more`)
  for (const pod of pods)
    if (!sets.some(({ metadata }) => metadata.uid === owner(pod)))
      throw new Error(`${buildKey(pod)} is nobody's any more`)
  for (const { metadata, spec, status } of deployments) {
    const own = sets.filter((set) => owner(set) === metadata.uid)
    const used = own.filter(({ spec: { replicas } }) => replicas > 0)
    const there = pods.filter((pod) => own.some((set) => set.metadata.uid === owner(pod)))
    const counts = `${used.length} ReplicaSets with ${there.length} pods, ${status.availableReplicas} available`
    if (used.length !== 1 || there.length !== spec.replicas || status.availableReplicas !== spec.replicas)
      throw new Error(`${metadata.name} has ${counts}`)
  }
}

/** Checks that everything in the namespace is as the manifests say. */
export async function checkConverged(
  namespace: string,
  wanted: readonly Manifest[],
  children: readonly LiveObject[],
): Promise<void> {
  await checkObjects(namespace, wanted)
  const live = (await list(namespace, CHILDREN)).filter((one) => !NOBODYS.includes(buildKey(one)))
  compare('children', live, children)
  await checkPods(namespace)
}

/**
 * Checks that containers of a namespace did not restart more often than they were killed. A kubelet that is killed
 * between creating and starting a container creates another one, and counts it: `spare` restarts are allowed for that.
 */
export async function checkRestarts(
  namespace: string,
  killed: ReadonlyMap<string, ReadonlySet<string>>,
  spare: number,
): Promise<void> {
  const pods = (await list(namespace, 'pods')) as readonly unknown[] as readonly Pod[]
  const extra = pods.flatMap((pod) =>
    listContainers(pod).flatMap(({ name, restartCount, lastState }) => {
      const more = restartCount - (killed.get(containerKey(pod, name))?.size ?? 0)
      return more === 0 ? [] : [{ text: `${pod.metadata.name} ${name}: ${more} (${JSON.stringify(lastState)})`, more }]
    }),
  )
  if (extra.some(({ more }) => more < 0) || extra.reduce((sum, { more }) => sum + more, 0) > spare)
    throw new Error(`restarts besides those of killed containers: ${extra.map(({ text }) => text).join('; ')}`)
}
