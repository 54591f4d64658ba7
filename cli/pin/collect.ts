/** Asks data planes which definitions servers show: those of a cluster, or of the manifests started here. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { request } from 'undici'
import { runningPods } from '../../console/places/pods.ts'
import { findKind, formatApiVersion, VERSION } from '../../crds/index.ts'
import { type Manifest, objectKey } from '../../operator/cluster/files/index.ts'
import { ApiServer, listAll } from '../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../operator/cluster/kubernetes/kube-config.ts'
import { buildPath } from '../../operator/cluster/kubernetes/resource.ts'
import { readWithin } from '../../operator/cluster/read-within.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'
import { dataPlanePort, PODS } from '../../operator/runtime/pods/read-pod-status.ts'
import type { Report } from '../../operator/standalone/report.ts'
import { Standalone } from '../../operator/standalone/standalone.ts'
import type { Io } from '../command.ts'
import type { Cluster } from '../kubectl/cluster.ts'
import { withForwarded } from '../kubectl/program.ts'
import { removeRepeats, type Shown, shownBy } from './pinned.ts'

export interface Server {
  readonly kind: 'MCPServer' | 'MCPRemoteProxy' | 'MCPServerEntry'
  readonly namespace: string
  readonly name: string
  /** The group of an entry: gateways of it are asked. */
  readonly group: string | undefined
}

export type Collected = ReadonlyMap<string, readonly Shown[] | string>

const LARGEST_ANSWER = 64 * 1024 * 1024
const ANSWER_MS = 30_000
const START_LIMIT_MS = 180_000
const LOOK_MS = 300

/** Reads `GET /definitions` of an admin listener; with `query` in a certain form. */
async function fetchDefinitions(admin: string, query = ''): Promise<unknown> {
  const { statusCode, body } = await request(`${admin}/definitions${query}`, {
    signal: AbortSignal.timeout(ANSWER_MS),
  })
  const text = await readWithin(LARGEST_ANSWER, body, '/definitions')
  if (statusCode !== 200) throw new Error(`/definitions answers ${statusCode}`)
  return JSON.parse(text)
}

const NOT_LISTED = 'its data plane has no list yet: the server does not answer'

const describeError = (error: unknown) => (error instanceof Error ? error.message : String(error))

export async function collectFromCluster(
  servers: readonly Server[],
  { kubeconfig, group, io }: { readonly kubeconfig: string; readonly group: string; readonly io: Io },
): Promise<Collected> {
  const config = loadKubeConfig(kubeconfig, { tell: (text) => io.err(`portico: ${text}`) })
  const collected = new Map<string, readonly Shown[] | string>()
  try {
    const api = new ApiServer(config, 'portico-pin')
    for (const server of servers) {
      try {
        const cluster = {
          api,
          group,
          namespace: server.namespace,
          kubectlOptions: [`--kubeconfig=${kubeconfig}`, `--namespace=${server.namespace}`],
        }
        collected.set(objectKey(server), await fetchFromCluster(server, cluster, io))
      } catch (error) {
        collected.set(objectKey(server), describeError(error))
      }
    }
  } finally {
    await config.closePool()
  }
  return collected
}

async function findWorkloads({ kind, namespace, name, group }: Server, { api, group: apiGroup }: Cluster) {
  const at = kind === 'MCPServerEntry' ? 'VirtualMCPServer' : kind
  const plural = findKind(at)?.plural ?? ''
  const all = await listAll(api, { group: apiGroup, version: VERSION, plural, kind: at }, { namespace })
  const isAsked = ({ metadata, spec }: KubernetesObject) =>
    at === kind
      ? metadata.name === name
      : (spec as { readonly groupRef?: { readonly name?: string } }).groupRef?.name === group
  return all.filter(isAsked).map((object) => ({ ...object, kind: at }))
}

/** Asks every running pod: a caller's own list is known to the pod that the caller uses. */
async function fetchFromCluster(server: Server, cluster: Cluster, io: Io): Promise<readonly Shown[] | string> {
  const workloads = await findWorkloads(server, cluster)
  const pods = (await Promise.all(workloads.map((workload) => runningPods(cluster, workload)))).flat()
  if (pods.length === 0) return 'none of its pods runs in the cluster'
  const answers: (readonly Shown[])[] = []
  for (const pod of pods) {
    const found = shownBy(await readPodDefinitions(pod, server, cluster, io), server.name)
    if (found?.isListed === true) answers.push(found.shown)
  }
  return answers.length === 0 ? NOT_LISTED : removeRepeats(answers.flat())
}

/** Asks a pod through the API server, or by kubectl where a NetworkPolicy keeps the API server away. */
async function readPodDefinitions(
  pod: KubernetesObject,
  { name: backend }: Server,
  cluster: Cluster,
  io: Io,
): Promise<unknown> {
  const query = `?backend=${encodeURIComponent(backend)}`
  const { namespace, name } = pod.metadata
  const path = `${buildPath(PODS, namespace, `${name}:${dataPlanePort(pod, 'admin')}`, 'proxy')}/definitions`
  try {
    return await cluster.api.request<unknown>('GET', path, { query: { backend }, timeout: ANSWER_MS })
  } catch {
    return await withForwarded({ pod, port: 'admin' }, cluster, io, (admin) => fetchDefinitions(admin, query))
  }
}

/** The gateway that is started for entries of a group that has none in the manifests. */
const nameGateway = (group: string) => `pin-${group}`.slice(0, 52).replace(/[^a-z0-9]+$/, '')

/** The kinds of which processes are started. */
const STARTED: ReadonlySet<string> = new Set(['MCPServer', 'MCPRemoteProxy', 'VirtualMCPServer', 'MCPRegistry'])

/**
 * Leaves out whatever would be started and is not asked. Adds a gateway for the entries of each group: an entry has no
 * pod of its own.
 */
const chooseWorkloads =
  (servers: readonly Server[]) =>
  (manifests: readonly Manifest[], apiGroup: string): readonly Manifest[] => {
    const groups = new Map(
      servers.flatMap(({ namespace, group }) =>
        group === undefined ? [] : [[`${namespace}/${group}`, { namespace, group }]],
      ),
    )
    const stands = [...groups.values()].flatMap(({ namespace, group }): readonly Manifest[] => {
      const name = nameGateway(group)
      const id = { kind: 'VirtualMCPServer', namespace, name }
      const like = manifests.find((one) => one.id.namespace === namespace)
      if (like === undefined) return []
      const spec = { groupRef: { name: group }, incomingAuth: { type: 'anonymous' } }
      const object = { apiVersion: formatApiVersion(apiGroup), kind: id.kind, metadata: { name, namespace }, spec }
      return [{ ...like, id, object }]
    })
    const asked = new Set(servers.map(objectKey))
    return [...manifests.filter(({ id }) => !STARTED.has(id.kind) || asked.has(objectKey(id))), ...stands]
  }

/** Starts the servers as `run` does, and asks the data planes once they know everything. */
export async function collectFromFiles(
  servers: readonly Server[],
  { paths, group, io }: { readonly paths: readonly string[]; readonly group: string | undefined; readonly io: Io },
): Promise<Collected> {
  const state = mkdtempSync(join(tmpdir(), 'portico-pin-'))
  let report: Report | undefined
  const standalone = new Standalone({
    paths,
    state,
    host: '127.0.0.1',
    group,
    self: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
    environment: io.env,
    edit: chooseWorkloads(servers),
    onReport: (now) => {
      report = now
    },
    show: (line) => io.err(line),
    isVerbose: false,
  })
  try {
    standalone.start()
    const end = performance.now() + START_LIMIT_MS
    const isOver = () => performance.now() > end || io.stop.aborted
    const found = servers.map(
      async (server) => [objectKey(server), await waitForServer(server, () => report, isOver)] as const,
    )
    return new Map(await Promise.all(found))
  } finally {
    await standalone.close()
    rmSync(state, { recursive: true, force: true })
  }
}

/** Asks for a server until two looks in turn find the same. */
async function waitForServer(
  server: Server,
  report: () => Report | undefined,
  isOver: () => boolean,
): Promise<readonly Shown[] | string> {
  let before = ''
  for (;;) {
    await pause(LOOK_MS)
    const found = await fetchLocally(server, report(), '?pages=none')
    const failure = typeof found === 'string' ? findFailure(server, report()) : undefined
    if (failure !== undefined || isOver()) return failure ?? found
    const text = typeof found === 'string' ? '' : JSON.stringify(found)
    if (text !== '' && text === before) return await fetchLocally(server, report())
    before = text
  }
}

function findFailure(server: Server, report: Report | undefined): string | undefined {
  const key = objectKey(server)
  const isFailed = report !== undefined && !report.starting.some((one) => objectKey(one) === key)
  const isServing = report?.endpoints.some((one) => objectKey(one) === key) === true
  const problem = report?.problems.find((one) => objectKey(one) === key && one.severity === 'error')
  return isFailed && !isServing && problem !== undefined ? `${problem.reason}: ${problem.message}` : undefined
}

async function fetchLocally({ kind, namespace, name, group }: Server, report: Report | undefined, query?: string) {
  const at = kind === 'MCPServerEntry' ? { kind: 'VirtualMCPServer', name: nameGateway(group ?? '') } : { kind, name }
  const endpoint = report?.endpoints.find(
    (one) => one.kind === at.kind && one.namespace === namespace && one.name === at.name,
  )
  if (endpoint === undefined) return 'it does not start here; ask a cluster with --kubeconfig'
  try {
    const found = shownBy(await fetchDefinitions(endpoint.admin, query), name)
    return found?.isListed === true ? removeRepeats(found.shown) : NOT_LISTED
  } catch (error) {
    return describeError(error)
  }
}
