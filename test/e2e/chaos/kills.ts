/** Kills processes of the test's own node, in an order that depends on the seed, and counts them. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  type ContainerStatus,
  killContainer,
  listBeside,
  listContainers,
  type Pod,
} from '../../support/operator/e2e-cluster.ts'
import { createNumbers } from '../../support/random.ts'

export const KILLS = ['data plane', 'operator', 'kubelet', 'API server', 'etcd'] as const
export type Kill = (typeof KILLS)[number]

/** Pods are killed more often than the components that run them. */
const LIKELY: readonly Kill[] = ['data plane', 'data plane', 'data plane', 'operator', 'kubelet', 'API server', 'etcd']

type Component = 'kubelet' | 'kube-apiserver' | 'etcd' | 'kube-controller-manager'

/** Folder in which the node (test/e2e/node.ts) and its control plane record their processes. */
function findProcess(name: Component): number {
  const { PORTICO_E2E = '', KUBECONFIG = '' } = process.env
  const folder = name === 'kubelet' ? PORTICO_E2E : dirname(KUBECONFIG)
  return Number(readFileSync(join(folder, `${name}.pid`), 'utf8'))
}

/** Kills a component, which is restarted at once. Returns whether it was running. */
export function killComponent(name: Component): boolean {
  try {
    return process.kill(findProcess(name), 'SIGKILL')
  } catch {
    return false // The component is about to be restarted.
  }
}

/** A pod with its running containers. */
interface Running {
  readonly pod: Pod
  readonly container: ContainerStatus
}

export const containerKey = ({ metadata }: Pod, name: string) => `${metadata.name} ${metadata.uid} ${name}`

export class Kills {
  readonly counts = new Map<Kill, number>(KILLS.map((kind) => [kind, 0]))
  /** Killed runs of containers, by the container's key. */
  readonly containers = new Map<string, Set<string>>()
  readonly #below: (most: number) => number
  readonly #namespaces: Readonly<Record<'data plane' | 'operator', string>>
  readonly #seen = new Map<string, readonly Running[]>()
  readonly #first: Kill[]

  constructor(seed: number, namespaces: Readonly<Record<'data plane' | 'operator', string>>) {
    this.#below = createNumbers(seed)
    this.#namespaces = namespaces
    this.#first = KILLS.map((kind) => ({ kind, at: this.#below(1000) }))
      .sort((a, b) => a.at - b.at)
      .map(({ kind }) => kind)
  }

  /**
   * Kills each kind once at the beginning, then at random. Returns what was killed, or nothing if it had already
   * ended.
   */
  async next(): Promise<string | undefined> {
    const kind = this.#first.shift() ?? (LIKELY[this.#below(LIKELY.length)] as Kill)
    const chance = this.#below(1 << 20)
    const killed = await this.#kill(kind, chance)
    if (killed !== undefined) this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
    return killed
  }

  async #kill(kind: Kill, chance: number): Promise<string | undefined> {
    if (kind === 'data plane' || kind === 'operator') return this.#killContainer(this.#namespaces[kind], chance)
    const names = { kubelet: 'kubelet', 'API server': 'kube-apiserver', etcd: 'etcd' } as const
    return killComponent(names[kind]) ? kind : undefined
  }

  async #killContainer(namespace: string, chance: number): Promise<string | undefined> {
    const running = await this.#running(namespace)
    const chosen = running[chance % running.length]
    if (!chosen) return undefined
    const { pod, container } = chosen
    try {
      killContainer(container)
    } catch {
      return undefined // The container has ended since it was listed.
    }
    const key = containerKey(pod, container.name)
    this.containers.set(key, (this.containers.get(key) ?? new Set()).add(container.containerID ?? ''))
    return `${container.name} of ${pod.metadata.name}`
  }

  /** Returns the API server's last list of containers, because pods are killed while it is down, too. */
  async #running(namespace: string): Promise<readonly Running[]> {
    try {
      const listed = (await listBeside('pods', namespace)) as unknown as readonly Pod[]
      const found = listed.flatMap((pod) =>
        listContainers(pod)
          .filter(({ state }) => state?.running !== undefined)
          .map((container) => ({ pod, container })),
      )
      this.#seen.set(namespace, found)
    } catch {}
    return this.#seen.get(namespace) ?? []
  }
}
