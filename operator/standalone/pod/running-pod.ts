import { rmSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type ObjectId, objectKey } from '../../cluster/files/index.ts'
import type { NamedObservation } from '../../model/index.ts'
import type { ReportedProblems } from '../../model/reported.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { listenError } from '../ports/local-ports.ts'
import { Child, type ChildOptions, type Obstacle, type ProcessSpec } from '../process/child.ts'
import { fetchStatus, GatewayPoller } from '../status/gateway-poller.ts'
import { removeSecrets, writeMounts } from './mounts.ts'
import type { LocalPod } from './workload.ts'

/** Milliseconds after which a data plane that has not loaded its new configuration has refused it. */
const CONFIG_TIMEOUT_MS = 5_000
/** The time between two tries of a port that is in use. */
const PORT_PAUSE_MS = 1_000
/** The same while a stopping pod of ours may hold the port, which it frees soon. */
const PORT_GRACE_MS = 50

/** The address of the data plane's public listener, and how to choose another one. */
interface PublicPort {
  readonly host: string
  readonly port: number
  readonly advice: string
}

interface PodOptions extends ChildOptions {
  /** Tells whether a pod of ours is still stopping, which may hold the port. */
  readonly isOneLeaving: () => boolean
  /** Returns when the local servers came up, by the origin of their URL (milliseconds since 1970). */
  readonly servers: () => ReadonlyMap<string, number>
}

type PodPhase = 'starting' | 'ready' | 'failed'

const isSameSpec = (child: Child | undefined, spec: ProcessSpec | undefined) =>
  JSON.stringify(child?.spec) === JSON.stringify(spec)

export class RunningPod {
  readonly id: ObjectId
  readonly root: string
  readonly #options: PodOptions
  #pod: LocalPod | undefined
  #plane: Child | undefined
  #server: Child | undefined
  /** The reason why there is no pod to apply; set from outside. */
  #blocked: Obstacle | undefined
  #obstacle: Obstacle | undefined
  /** Polls the data plane of a gateway; undefined for other kinds. */
  #gateway: GatewayPoller | undefined
  /** The problems that the data plane of a registry or proxy has reported. */
  #reported: ReportedProblems = {}
  readonly #stopping = new AbortController()
  #work = Promise.resolve()
  #waiting = 0

  constructor(id: ObjectId, root: string, options: PodOptions) {
    this.id = id
    this.root = root
    this.#options = options
  }

  get pod(): LocalPod | undefined {
    return this.#pod
  }

  get isUp(): boolean {
    return this.#plane !== undefined || this.#server !== undefined
  }

  /** True if clients are answered, whatever else is wrong. */
  get isServing(): boolean {
    return this.#plane?.state.phase === 'ready' && this.#server?.state.phase !== 'failed'
  }

  /** The time since which clients are answered (milliseconds since 1970); undefined while they aren't. */
  get upSince(): number | undefined {
    const times = [this.#plane?.readySince, this.#server ? this.#server.readySince : 0]
    return times.includes(undefined) ? undefined : Math.max(...times.map(Number))
  }

  /** The phase of the pod. A gateway is starting until it has tried every server that is up. */
  get phase(): PodPhase {
    if (this.#blocked ?? this.#obstacle) return 'failed'
    const phases = [this.#server, this.#plane].flatMap((child) => (child ? [child.state.phase] : []))
    if (phases.includes('failed')) return 'failed'
    const isStarting = this.#waiting > 0 || !this.#plane || phases.includes('starting')
    return isStarting || this.#gateway?.hasTriedAll === false ? 'starting' : 'ready'
  }

  /** The pod as the operator would observe it. */
  get observation(): WorkloadObservation {
    const isReady = this.phase === 'ready'
    const states = [this.#server?.state, this.#plane?.state]
    const failed = this.#blocked ?? this.#obstacle ?? states.find((state) => state?.phase === 'failed')
    const why = failed && 'reason' in failed ? { reason: failed.reason, message: failed.message } : {}
    return {
      replicas: 1,
      readyReplicas: isReady ? 1 : 0,
      ...why,
      ...this.#gateway?.problems,
      ...this.#reported,
      reported: true,
    }
  }

  /** Stores the problems that the data plane reports. Returns whether they have changed. */
  report(problems: ReportedProblems): boolean {
    if (isDeepStrictEqual(problems, this.#reported)) return false
    this.#reported = problems
    return true
  }

  /** Records why the pod isn't available. Running processes continue. */
  block(reason: string, message: string): void {
    this.#blocked = { reason, message }
  }

  /**
   * Brings files and processes to what the pod asks for. A process restarts only if its own specification has changed.
   * Returns a description for people, if anything changes.
   */
  apply(pod: LocalPod, port: PublicPort): string | undefined {
    const before = this.#pod
    this.#blocked = undefined
    const filesChanged = writeMounts(this.root, pod.folders)
    const restarts = JSON.stringify(before && listProcesses(before)) !== JSON.stringify(listProcesses(pod))
    if (!filesChanged && !restarts) return undefined
    this.#pod = pod
    if (before?.adminUrl !== pod.adminUrl) this.#startPolling(pod)
    this.#enqueue(() => this.#sync(pod, port))
    if (!before) return 'started'
    return restarts ? 'restarted' : 'reconfigured'
  }

  #startPolling({ adminUrl }: LocalPod): void {
    this.#gateway?.stop()
    if (this.id.kind !== 'VirtualMCPServer') return
    const { onChange, servers } = this.#options
    const expected = () => ({ config: this.#pod?.configHash, upSince: this.#plane?.readySince, servers: servers() })
    this.#gateway = new GatewayPoller(adminUrl, { expected, onChange })
  }

  pollSoon(): void {
    this.#gateway?.pollSoon()
  }

  #enqueue(work: () => Promise<void>): void {
    this.#waiting++
    this.#work = this.#work
      .then(work)
      .catch((error: Error) => {
        this.#obstacle = { reason: 'NotStarted', message: error.message }
      })
      .finally(() => {
        this.#waiting--
        if (!this.#stopping.signal.aborted) this.#options.onChange()
      })
  }

  async #sync(pod: LocalPod, port: PublicPort): Promise<void> {
    if (this.#stopping.signal.aborted || pod !== this.#pod) return
    this.#obstacle = undefined
    if (!isSameSpec(this.#server, pod.server)) {
      await this.#server?.stop()
      this.#server = pod.server && new Child(pod.server, this.#options)
    }
    if (!isSameSpec(this.#plane, pod.plane)) {
      await this.#plane?.stop()
      this.#plane = undefined
      await this.#awaitPort(pod, port)
      if (this.#stopping.signal.aborted || pod !== this.#pod) return
      this.#plane = new Child(pod.plane, this.#options)
    } else await this.#awaitConfig(pod)
  }

  /** Waits until the public port is free. Until then the port is the pod's obstacle. */
  async #awaitPort(pod: LocalPod, port: PublicPort): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted && pod === this.#pod) {
      const code = await listenError(port.host, port.port)
      if (code === undefined) break
      const obstacle = describePortObstacle(port, code)
      if (this.#obstacle?.message !== obstacle.message && !this.#options.isOneLeaving()) {
        this.#obstacle = obstacle
        this.#options.onChange()
      }
      await delay(this.#obstacle ? PORT_PAUSE_MS : PORT_GRACE_MS, undefined, { signal }).catch(() => undefined)
    }
    this.#obstacle = undefined
  }

  /** Waits until the running data plane reports the hash of its new configuration. */
  async #awaitConfig(pod: LocalPod): Promise<void> {
    if (pod.configHash === undefined || this.#plane?.state.phase !== 'ready') return
    const deadline = performance.now() + CONFIG_TIMEOUT_MS
    while (!this.#stopping.signal.aborted && pod === this.#pod) {
      if ((await fetchStatus(pod.adminUrl))?.['config'] === pod.configHash) return
      if (performance.now() > deadline) {
        const message = 'the data plane refused its new configuration and serves the last one'
        this.#obstacle = { reason: 'ConfigRefused', message }
        return
      }
      await delay(20)
    }
  }

  /** Stops the processes. `remove` removes all files, otherwise only those of Secrets are removed. */
  async stop({ remove }: { readonly remove: boolean }): Promise<void> {
    this.#stopping.abort()
    this.#gateway?.stop()
    await Promise.all([this.#work, this.#plane?.stop(), this.#server?.stop()])
    // A start that ran when the stop came may have added processes.
    await Promise.all([this.#plane?.stop(), this.#server?.stop()])
    if (remove) rmSync(this.root, { recursive: true, force: true })
    else removeSecrets(this.root)
  }
}

function describePortObstacle({ host, port, advice }: PublicPort, code: string): Obstacle {
  const address = `port ${port} on ${host}`
  if (code === 'EADDRINUSE')
    return { reason: 'PortTaken', message: `${address} is taken by another process; end it, or ${advice}` }
  const why = code === 'EACCES' ? 'needs rights that this user lacks' : `can't be listened on (${code})`
  return { reason: 'PortRefused', message: `${address} ${why}; ${advice}` }
}

const listProcesses = ({ plane, server }: LocalPod) => [plane, server]

interface PodSetOptions extends ChildOptions {
  readonly buildUrl: (id: ObjectId) => string | undefined
}

/** The pods that run on this machine, by workload. */
export class PodSet {
  readonly #options: PodOptions
  readonly #pods = new Map<string, RunningPod>()
  /** Pods that are being stopped. Their files are removed when they have ended. */
  readonly #leaving = new Map<string, Promise<void>>()

  constructor({ buildUrl, ...options }: PodSetOptions) {
    this.#options = {
      ...options,
      onChange: () => {
        for (const pod of this.#pods.values()) pod.pollSoon()
        options.onChange()
      },
      isOneLeaving: () => this.#leaving.size > 0,
      servers: () =>
        new Map(
          this.all().flatMap(({ id, upSince }) => {
            const url = buildUrl(id)
            return url === undefined || upSince === undefined ? [] : [[new URL(url).origin, upSince] as const]
          }),
        ),
    }
  }

  get(id: ObjectId): RunningPod | undefined {
    return this.#pods.get(objectKey(id))
  }

  all(): readonly RunningPod[] {
    return [...this.#pods.values()]
  }

  /** Returns the workload's pod, or undefined while an earlier one is stopping, whose end calls `onChange`. */
  getOrAdd(id: ObjectId, root: string): RunningPod | undefined {
    const key = objectKey(id)
    if (this.#leaving.has(key)) return undefined
    let pod = this.#pods.get(key)
    if (!pod) this.#pods.set(key, (pod = new RunningPod(id, root, this.#options)))
    return pod
  }

  observations(): readonly NamedObservation[] {
    return this.all().map((pod) => ({ ...pod.id, ...pod.observation }))
  }

  /** Stops the pods whose workload isn't in `wanted`, removes their files and returns their workloads. */
  removeAllBut(wanted: ReadonlySet<string>): readonly ObjectId[] {
    const removed: ObjectId[] = []
    for (const [key, pod] of this.#pods) {
      if (wanted.has(key)) continue
      this.#pods.delete(key)
      removed.push(pod.id)
      const gone = pod.stop({ remove: true }).finally(() => {
        this.#leaving.delete(key)
        this.#options.onChange()
      })
      this.#leaving.set(key, gone)
    }
    return removed
  }

  async stopAll(): Promise<void> {
    await Promise.all([...this.all().map((pod) => pod.stop({ remove: false })), ...this.#leaving.values()])
  }
}
