import {
  checkManifests,
  type Manifest,
  type ManifestSet,
  objectKey,
  readManifests,
} from '../../operator/cluster/files/index.ts'
import { ApiError, ApiServer, isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import { buildPath, childResource } from '../../operator/cluster/kubernetes/resource.ts'
import type { KubernetesObject, World } from '../../operator/model/index.ts'
import { clusterAddress, type PlannedObject, planAll, type ReconcileContext } from '../../operator/reconcile/index.ts'
import { canonicalJson, canonicalYaml, sortedKeys } from '../../operator/render/object/canonical.ts'
import { MANAGER } from '../../operator/runtime/children/managed-fields.ts'
import { type Command, type Given, type Io, UsageError } from '../command.ts'
import { hasErrors, printFindings } from '../findings.ts'
import { readSettings } from '../operator/settings.ts'
import { groupOption, readApiGroup, readManifestPaths } from '../options/manifests.ts'
import { operatorNamespaceOption } from '../options/pod-options.ts'
import { diffPins } from '../pin/diff.ts'
import { serverOption } from '../pin/servers.ts'
import { buildWorld, type Contents, fetchLiveChildren, fetchLiveObjects, mergeApplied, readRevisions } from './live.ts'
import { unified } from './unified.ts'

const FAILED = 2
/** A fixed time: children do not depend on it. */
const NO_TIME = '1970-01-01T00:00:00Z'

const formatId = ({ kind, metadata }: KubernetesObject) => `${kind}/${metadata.namespace}/${metadata.name}`

function planWorld({ view }: World, context: ReconcileContext): Map<string, PlannedObject> {
  return new Map(planAll(view, context).map((planned) => [formatId(planned.object), planned]))
}

const isChildOf = (child: KubernetesObject, { metadata }: KubernetesObject) =>
  metadata.uid !== undefined && child.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid)

/** The metadata that the API server and the operator keep for themselves. */
const OF_SERVER = new Set(['managedFields', 'resourceVersion', 'uid', 'generation', 'creationTimestamp', 'selfLink'])

function formatObject(object: KubernetesObject | undefined, group: string): string {
  if (!object) return ''
  const { status: _, metadata, ...rest } = object
  const { annotations = {}, ...others } = metadata as Record<string, unknown> & { annotations?: Record<string, string> }
  const { [`${group}/applied-hash`]: __, ...shown } = annotations
  const kept = Object.fromEntries(Object.entries(others).filter(([name]) => !OF_SERVER.has(name)))
  return canonicalYaml(
    sortedKeys({ ...rest, metadata: { ...kept, ...(Object.keys(shown).length > 0 && { annotations: shown }) } }),
  )
}

/** Returns the child that a server-side apply by the operator would produce; nothing is written. */
async function dryRun(api: ApiServer, child: KubernetesObject): Promise<KubernetesObject> {
  const { namespace, name } = child.metadata
  try {
    return await api.request<KubernetesObject>('PATCH', buildPath(childResource(child.kind), namespace, name), {
      query: { fieldManager: MANAGER, force: true, dryRun: 'All' },
      contentType: 'application/apply-patch+yaml',
      body: child,
    })
  } catch (error) {
    // The namespace does not exist yet, or a field is immutable and the operator recreates the child.
    if (isNotFound(error) || (error instanceof ApiError && error.status === 422)) return child
    throw error
  }
}

/** Returns the differences of a live child and its planned state, as a text; empty if there are none. */
async function diffChild(
  api: ApiServer,
  group: string,
  live: KubernetesObject | undefined,
  child: KubernetesObject | undefined,
): Promise<string> {
  const after = child && (await dryRun(api, child))
  const changes = unified(formatObject(live, group), formatObject(after, group))
  const name = formatId((child ?? live) as KubernetesObject)
  const [old, next] = [live ? `live/${name}` : '/dev/null', child ? `new/${name}` : '/dev/null']
  return changes === '' ? '' : `--- ${old}\n+++ ${next}\n${changes}`
}

async function printDiff(
  { api, group, io }: { readonly api: ApiServer; readonly group: string; readonly io: Io },
  { object, plan }: PlannedObject,
  live: readonly KubernetesObject[],
): Promise<number> {
  if (plan.children === 'hold') {
    const { reason, message } = plan.status.conditions.find(({ type }) => type === 'Ready') ?? {}
    io.err(`portico: ${formatId(object)}: the running children would stay as they are: ${reason}: ${message}`)
    return 0
  }
  const wanted = new Set(plan.children.map(formatId))
  const byId = new Map(live.map((child) => [formatId(child), child]))
  let count = 0
  const show = async (before: KubernetesObject | undefined, after: KubernetesObject | undefined) => {
    const difference = await diffChild(api, group, before, after)
    if (difference !== '') count += 1
    io.out(difference)
  }
  for (const child of plan.children) await show(byId.get(formatId(child)), child)
  for (const child of live) if (isChildOf(child, object) && !wanted.has(formatId(child))) await show(child, undefined)
  return count
}

/** Plans all workloads in the files, and those whose children would change. Returns the plans and the live children. */
async function compareWithCluster(
  api: ApiServer,
  set: ManifestSet,
  valid: readonly Manifest[],
  context: ReconcileContext,
) {
  const { group } = context
  const all = [...valid.map(({ id }) => id), ...set.secrets, ...set.configMaps]
  const namespaces = [...new Set(all.map(({ namespace }) => namespace))]
  const live = new Map((await fetchLiveObjects(api, group, namespaces)).map((object) => [formatId(object), object]))
  const given = new Map(valid.map((one) => [objectKey(one.id), mergeApplied(one, live.get(objectKey(one.id)), group)]))
  const contents: Contents = new Map()
  const children = await fetchLiveChildren(api, namespaces)
  const known = { ...context, findSecretRevision: readRevisions(children, group) }
  const before = planWorld(await buildWorld(api, [...live.values()], contents), known)
  const after = planWorld(await buildWorld(api, [...new Map([...live, ...given]).values()], contents, set), known)
  const isConcerned = (id: string, { plan }: PlannedObject) =>
    given.has(id) || canonicalJson(plan.children) !== canonicalJson(before.get(id)?.plan.children)
  return {
    concerned: [...after].filter(([id, planned]) => isConcerned(id, planned)).map(([, planned]) => planned),
    children,
  }
}

async function diff(given: Given, io: Io): Promise<number> {
  const set = readManifests(readManifestPaths(given), readApiGroup(given, io))
  const { valid, findings } = checkManifests(set)
  printFindings([...set.findings, ...findings], io)
  if (hasErrors([...set.findings, ...findings])) return FAILED
  const kubeConfig = loadKubeConfig(given.text('kubeconfig'), { tell: (text) => io.err(`portico: ${text}`) })
  try {
    const api = new ApiServer(kubeConfig, 'portico-diff')
    const settings = await readSettings(api, given, io)
    const context = { ...settings, group: set.group, now: NO_TIME, resolveAddress: clusterAddress }
    const { concerned, children } = await compareWithCluster(api, set, valid, context)
    let count = 0
    for (const planned of concerned) count += await printDiff({ api, group: set.group, io }, planned, children)
    return count > 0 ? 1 : 0
  } finally {
    await kubeConfig.closePool()
  }
}

export const command: Command = {
  name: 'diff',
  synopsis: 'DIR|FILE … [options]',
  about: `Shows what applying manifests would change in what runs: the Deployments, Services, ConfigMaps and so on of these
objects, and of those in the same namespaces that depend on them, as the cluster's operator would write them (server-side
apply, dry run) against what is there. Writes nothing. It needs the right to read the objects, and to patch their children.
With --pins it shows how the definitions that servers show differ from those that MCPPins approve: of the data planes in
the cluster that --kubeconfig names, else of the manifests, started here as by run.
Exit codes as kubectl diff has them: 0 no difference, 1 differences, 2 failure.`,
  options: {
    kubeconfig: {
      type: 'string',
      value: 'FILE',
      description: 'Cluster to compare with. Default: KUBECONFIG, ~/.kube/config.',
    },
    image: {
      type: 'string',
      value: 'IMAGE',
      description: 'Image of the data plane. Default: that of the cluster’s operator.',
    },
    pins: { type: 'boolean', description: 'Compares definitions of servers with MCPPins.' },
    server: { ...serverOption, description: `With --pins: ${serverOption.description}` },
    'operator-namespace': operatorNamespaceOption,
    'api-group': groupOption,
  },
  async run(given, io) {
    try {
      return given.flag('pins') ? await diffPins(given, io) : await diff(given, io)
    } catch (error) {
      if (error instanceof UsageError) throw error
      io.err(`portico: ${(error as Error).message}`)
      return FAILED
    }
  },
}
