import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { formatApiVersion } from '../../../operator/cluster/kubernetes/resource.ts'
import { type Admin, createAdmin } from '../../cluster/support/admin.ts'
import { kubernetes } from '../../cluster/support/binary.ts'
import { resourceNamed } from '../../cluster/support/resources.ts'
import { PORTICO_IMAGE } from './e2e-images.ts'
import type { LiveObject } from './live-object.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const OPERATOR_NAMESPACE = 'portico-system'
/** Timeout of a waiting kubectl in milliseconds. The images are on the node, but two cores start every pod. */
const PATIENCE = 240_000
const POLL_MS = 250

const kubeconfig = process.env['KUBECONFIG']
if (!kubeconfig) throw new Error('these tests run on the node that test/e2e/run.ts starts')

/** The fields of a pod that tests read. */
export interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string }
  readonly status: {
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
    readonly containerStatuses?: readonly ContainerStatus[]
    readonly initContainerStatuses?: readonly ContainerStatus[]
  }
}

export interface ContainerStatus {
  readonly name: string
  readonly containerID?: string
  readonly restartCount: number
  readonly ready: boolean
  readonly state?: { readonly running?: object }
  readonly lastState?: { readonly terminated?: { readonly exitCode: number; readonly reason?: string } }
}

const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
  readonly clusters: readonly [{ readonly cluster: { readonly server: string } }]
  readonly users: readonly [{ readonly user: { readonly token: string } }]
}

/** The node's administrator, without starting a kubectl for each request. */
export const admin: Admin = createAdmin(clusters[0].cluster.server, users[0].user.token)

/** Runs kubectl as administrator and returns its standard output; throws with its standard error. */
export function kubectl(args: readonly string[], input?: string): string {
  const [program, ...leading] = kubernetes(['kubectl'])('kubectl')
  return execFileSync(program, [...leading, ...args], {
    encoding: 'utf8',
    cwd: root,
    env: { ...process.env, HOME: tmpdir() },
    maxBuffer: 1 << 28,
    ...(input === undefined ? { stdio: ['ignore', 'pipe', 'pipe'] } : { input, stdio: 'pipe' }),
  })
}

/** Returns kubectl's JSON, for kinds of others, which resources.ts does not know. */
export const get = <T>(...args: string[]): T => JSON.parse(kubectl(['get', ...args, '--output', 'json'])) as T

const config = loadKubeConfig(kubeconfig)

/** A client of the administrator that works beside the test; close it at the end if it was used. */
export const beside = {
  api: new ApiServer(config, 'test'),
  close: () => config.closePool(),
}

/** Lists objects of several kinds, separated by commas, asynchronously and within ten seconds. */
export async function listBeside(kinds: string, namespace: string): Promise<LiveObject[]> {
  const lists = kinds.split(',').map(async (word) => {
    const resource = resourceNamed(word)
    const { items } = await beside.api.list<LiveObject>(resource, namespace, { timeout: 10_000 })
    return (items ?? []).map((item) => ({ ...item, kind: resource.kind, apiVersion: formatApiVersion(resource) }))
  })
  return (await Promise.all(lists)).flat()
}

/** Creates or changes objects as `kubectl apply` does. */
export const apply = (namespace: string, ...objects: readonly object[]) =>
  kubectl(
    ['apply', '--namespace', namespace, '--filename', '-'],
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
  )

/** Creates a namespace that enforces the restricted Pod Security Standard. */
export function createNamespace(name: string): string {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  apply('default', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
  return name
}

/** Returns the pods of a namespace, all or those with labels. */
export const podsIn = (namespace: string, labels?: string): Pod[] =>
  admin.list('pods', { namespace, ...(labels === undefined ? {} : { labels }) }) as unknown as Pod[]

/** Returns the pods of a workload that are not being deleted. */
export const listPods = (namespace: string, kind: string, name: string): Pod[] =>
  podsIn(namespace, `app.kubernetes.io/name=${kind.toLowerCase()},app.kubernetes.io/instance=${name}`).filter(
    ({ metadata }) => !metadata.deletionTimestamp,
  )

/** Returns the names of a namespace's objects of several kinds, separated by commas. */
export const namesIn = (namespace: string, kinds: string): string[] =>
  admin
    .listMetadata(kinds, { namespace })
    .map(({ name }) => name)
    .sort()

export const isReady = ({ status }: Pod): boolean =>
  status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false

export const listContainers = ({ status }: Pod): readonly ContainerStatus[] => [
  ...(status.initContainerStatuses ?? []),
  ...(status.containerStatuses ?? []),
]

/** Describes the pods of a namespace and their logs, for the message of a failed test. */
function explain(namespace: string): string {
  const logs = podsIn(namespace).map(({ metadata: { name } }) => {
    const args = ['logs', name, '--namespace', namespace, '--all-containers', '--prefix', '--tail', '60']
    try {
      return kubectl(args)
    } catch (error) {
      return String(error)
    }
  })
  const events = kubectl(['get', 'events', '--namespace', namespace, '--sort-by', '.lastTimestamp'])
  return [kubectl(['get', 'pods', '--namespace', namespace, '--output', 'wide']), ...logs, events].join('\n')
}

/** Waits for a condition; the error shows the namespaces' pods, logs and events. */
export async function until(
  what: string,
  namespace: string,
  condition: () => boolean | Promise<boolean>,
  ms = PATIENCE,
): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await condition())) {
    if (performance.now() > deadline) {
      const explanation = [...new Set([namespace, OPERATOR_NAMESPACE])].map(explain).join('\n')
      // uvu prints the message and the stack, which repeats it.
      throw Object.assign(new Error(`waited ${ms} ms in vain: ${what}\n${explanation}`), { stack: '' })
    }
    await delay(POLL_MS)
  }
}

/**
 * Waits until an object's latest generation is Ready and this node reaches its `status.url`, which is returned.
 * kube-proxy writes the rules of a Service some time after its pods are ready, and connections are refused until then.
 */
export async function untilReady(namespace: string, kind: string, name: string): Promise<string> {
  let url = ''
  await until(`${kind} ${name} is Ready`, namespace, () => {
    const { metadata, status } = admin.read(kind, name, namespace)
    url = status?.url ?? ''
    return (
      status?.observedGeneration === metadata.generation &&
      status.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true
    )
  })
  if (url !== '') await until(`${url} accepts a connection`, namespace, () => acceptsConnection(new URL(url)))
  return url
}

async function acceptsConnection({ hostname, port, protocol }: URL): Promise<boolean> {
  const socket = createConnection({ host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Kills the process of a container. The tests see the node's processes, because they run in the same sandbox. */
export function killContainer({ containerID = '' }: ContainerStatus): void {
  const id = containerID.replace('containerd://', '')
  const groups = (process: string) => {
    try {
      return readFileSync(join('/proc', process, 'cgroup'), 'utf8')
    } catch {
      return '' // The process has ended meanwhile.
    }
  }
  const found = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && id !== '' && groups(name).includes(id))
  if (found.length === 0) throw new Error(`no process of the container ${containerID}`)
  for (const process_ of found) process.kill(Number(process_), 'SIGKILL')
}

/**
 * Applies one of the two installations of operator/deploy with this checkout's image, the namespaced one in the given
 * namespace, and waits until both replicas are Ready. The returned function removes it, with the CRDs (`all`) or without.
 */
export async function installOperator(
  variant: 'cluster' | 'namespaced',
  namespace = OPERATOR_NAMESPACE,
): Promise<(what?: 'all') => void> {
  const folder = mkdtempSync(join(tmpdir(), 'install-'))
  const [newName, newTag] = PORTICO_IMAGE.split(/:(?=[^:]*$)/)
  writeFileSync(
    join(folder, 'kustomization.yaml'),
    JSON.stringify({
      apiVersion: 'kustomize.config.k8s.io/v1beta1',
      kind: 'Kustomization',
      ...(variant === 'namespaced' ? { namespace } : {}),
      resources: [relative(folder, join(root, 'operator/deploy', variant === 'cluster' ? '' : variant))],
      images: [{ name: 'portico', newName, newTag }],
    }),
  )
  createNamespace(namespace)
  kubectl(['apply', '--server-side', '--kustomize', folder])
  await until('the operator is Ready', namespace, () => {
    const { status } = admin.read('deployment', 'portico-operator', namespace)
    return status['readyReplicas'] === 2
  })
  return (what) =>
    void kubectl([
      ...['delete', '--kustomize', folder, '--ignore-not-found', '--timeout', '240s'],
      ...(what === 'all' ? [] : ['--selector', 'app.kubernetes.io/part-of=portico']),
    ])
}
