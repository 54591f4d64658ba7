import { join } from 'node:path'
import { parse } from 'yaml'
import type { ObjectId } from '../../cluster/files/index.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { hashText } from '../../render/object/canonical.ts'
import { MOUNT_ROOT } from '../../render/pod/containers.ts'
import type { WorkloadPorts } from '../ports/local-ports.ts'
import type { ProcessSpec } from '../process/child.ts'
import { buildMounts, type MountedFolder } from './mounts.ts'
import { buildEnvironment, type Container, findPod, PodProblem, type Sources, splitContainers } from './pod.ts'

export interface LocalCommand {
  readonly command: string
  readonly path: string
  readonly folder: string
  readonly searchPath: string
}

interface WorkloadInput {
  readonly id: ObjectId
  readonly children: readonly KubernetesObject[]
  readonly sources: Sources
  /** The folder of all mounts of this workload. */
  readonly root: string
  readonly ports: WorkloadPorts
  readonly local: LocalCommand | undefined
  readonly group: string
  readonly self: readonly string[]
}

/** A pod as it runs on this machine: its files, and its processes by container. */
export interface LocalPod {
  readonly folders: readonly MountedFolder[]
  readonly plane: ProcessSpec
  readonly server: ProcessSpec | undefined
  readonly role: 'gateway' | 'registry'
  readonly adminUrl: string
  /** The hash of the configuration file, as the data plane reports it on `/status`. */
  readonly configHash: string | undefined
  /** The names of the registries in the configuration of a registry server. */
  readonly registries: readonly string[]
}

/** Replaces the values of options in a command line. */
function withOptions(args: readonly string[], values: Readonly<Record<string, string>>): string[] {
  return args.map((arg, index) => values[args[index - 1] ?? ''] ?? arg)
}

/** Returns the name of an object for people. */
export const formatTitle = ({ kind, namespace, name }: ObjectId) => `${kind} ${namespace}/${name}`

function buildPlaneSpec(input: WorkloadInput, container: Container, here: (path: string) => string): ProcessSpec {
  const { ports, self, sources, root } = input
  const { host } = ports
  const args = withOptions((container.args ?? []).map(here), {
    '--listen': `${host.includes(':') ? `[${host}]` : host}:${ports.listen}`,
    '--admin-listen': `127.0.0.1:${ports.admin}`,
  })
  // No load balancer has to learn that the process ends.
  args.push('--drain', '0')
  const env = Object.entries(buildEnvironment(container, sources)).map(([name, value]) => [name, here(value)])
  return {
    title: `${formatTitle(input.id)}${input.local ? ' (proxy)' : ''}`,
    run: { own: [...self, ...args] },
    env: { PORTICO_STATE_DIR: join(root, 'writable', 'state'), ...Object.fromEntries(env) },
    cwd: root,
    readyUrl: `http://127.0.0.1:${ports.admin}/readyz`,
  }
}

/** Returns the server's process, or undefined for one on standard input and output, a child of our data plane. */
function buildServerSpec(input: WorkloadInput, container: Container): ProcessSpec | undefined {
  const { id, local, group, ports, sources } = input
  if (!local) {
    const image = container.image ? ` ${container.image}` : ''
    throw new PodProblem(
      `the image${image} needs a cluster: the annotation ${group}/local-command names the command to start here instead`,
    )
  }
  if (container.stdin) return undefined
  const port = String(ports.server)
  return {
    title: formatTitle(id),
    run: { foreign: local.command },
    env: {
      PATH: local.searchPath,
      ...buildEnvironment(container, sources),
      HOST: '127.0.0.1',
      PORT: port,
      MCP_PORT: port,
    },
    cwd: local.folder,
    readyUrl: `http://127.0.0.1:${port}${local.path}`,
  }
}

const findConfigFile = (folders: readonly MountedFolder[], role: string) =>
  folders.find(({ mountPath }) => mountPath === `${MOUNT_ROOT}/config`)?.files?.get(`${role}.yaml`)

function readRegistryNames(content: Buffer): readonly string[] {
  const { registries = [] } = parse(content.toString(), { uniqueKeys: false }) as {
    registries?: readonly { readonly name: string }[]
  }
  return registries.map(({ name }) => name)
}

/**
 * Turns a workload's children into processes on this machine: the same files, our data plane, and the local command
 * instead of the user's image. Undefined without a pod or replica. Throws a PodProblem if something needs a cluster.
 */
export function buildLocalPod(input: WorkloadInput): LocalPod | undefined {
  const pod = findPod(input.children)
  if (!pod) return undefined
  const { plane, others } = splitContainers(pod)
  if (!plane) throw new PodProblem('the pod has no container of the data plane')
  const [server, ...more] = others
  if (more.length > 0) {
    throw new PodProblem(`containers besides the server need a cluster: ${more.map(({ name }) => name).join(', ')}`)
  }
  const { folders, here } = buildMounts(input.root, plane, pod.volumes ?? [], input.sources)
  const role = plane.args?.[1] === 'registry' ? 'registry' : 'gateway'
  const config = findConfigFile(folders, role)
  return {
    folders,
    plane: buildPlaneSpec(input, plane, here),
    server: server && buildServerSpec(input, server),
    role,
    adminUrl: `http://127.0.0.1:${input.ports.admin}`,
    configHash: config && hashText(config),
    registries: role === 'registry' && config ? readRegistryNames(config) : [],
  }
}

/** Returns the folder of a workload's files. A namespace holds no dot, so two workloads never share a folder. */
export const formatFolderName = ({ kind, namespace, name }: ObjectId): string =>
  `${kind.toLowerCase()}-${namespace}.${name}`
