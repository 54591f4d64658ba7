import { rmSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { ObjectId } from '../../cluster/files/index.ts'
import type { ReportedProblems } from '../../model/reported.ts'
import type { WorkloadObservation } from '../../model/view.ts'
import { listenError } from '../ports/local-ports.ts'
import { Child, type ChildOptions, type ProcessSpec } from '../process/child.ts'
import { fetchStatus } from '../status/fetch-status.ts'
import { GatewayPoller } from '../status/gateway-poller.ts'
import { removeSecrets, writeMounts } from './mounts.ts'
import type { LocalPod } from './workload.ts'

/** A data plane that took no notice of its new configuration for so long has refused it. */
const CONFIG_TIMEOUT_MS = 5_000
/** Time between two tries of a port that is taken. */
const PORT_PAUSE_MS = 1_000
/** The same while one of ours may still have it: it goes at once. */
const PORT_GRACE_MS = 50

interface Obstacle {
  readonly reason: string
  readonly message: string
}

/** Where the data plane's public listener is, and how to choose another one. */
interface PublicPort {
  readonly host: string
  readonly port: number
  readonly advice: string
}

export interface PodOptions extends ChildOptions {
  /** Whether a pod of ours is still on its way out: it may be the one that has the port. */
  readonly isOneLeaving: () => boolean
  /** When the servers that run here came up, by the origin of their URL (milliseconds since 1970). */
  readonly servers: () => ReadonlyMap<string, number>
}

type PodPhase = 'starting' | 'ready' | 'failed'

const sameSpec = (child: Child | undefined, spec: ProcessSpec | undefined) =>
  JSON.stringify(child?.spec) === JSON.stringify(spec)

/** A workload's pod on this machine: its files and processes, kept to the last pod that was applied. */
export class RunningPod {
  readonly id: ObjectId
  readonly root: string
  readonly #options: PodOptions
  #pod: LocalPod | undefined
  #plane: Child | undefined
  #server: Child | undefined
  /** Why there is no pod to apply; set from outside. */
  #blocked: Obstacle | undefined
  /** What keeps the applied pod from running as it should. */
  #obstacle: Obstacle | undefined
  /** Polls the data plane of a gateway; undefined for other kinds. */
  #gateway: GatewayPoller | undefined
  /** What the data plane of a registry or proxy has reported. */
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

  /** Whether it has processes, which have its ports. */
  get isUp(): boolean {
    return this.#plane !== undefined || this.#server !== undefined
  }

  /** Whether clients are answered, whatever else is wrong. */
  get isServing(): boolean {
    return this.#plane?.state.phase === 'ready' && this.#server?.state.phase !== 'failed'
  }

  /** Since when clients have been answered (milliseconds since 1970); undefined while they aren't. */
  get upSince(): number | undefined {
    const times = [this.#plane?.readySince, this.#server ? this.#server.readySince : 0]
    return times.includes(undefined) ? undefined : Math.max(...times.map(Number))
  }

  /** A gateway is starting until it has tried every server that is up: what it lists then is whole. */
  get phase(): PodPhase {
    if (this.#blocked ?? this.#obstacle) return 'failed'
    const phases = [this.#server, this.#plane].flatMap((child) => (child ? [child.state.phase] : []))
    if (phases.includes('failed')) return 'failed'
    const isStarting = this.#waiting > 0 || !this.#plane || phases.includes('starting')
    return isStarting || this.#gateway?.hasTriedAll === false ? 'starting' : 'ready'
  }

  /** The pod as the operator would see it. */
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

  /** Takes what the data plane says of itself; true where that is something else than before. */
  report(problems: ReportedProblems): boolean {
    if (isDeepStrictEqual(problems, this.#reported)) return false
    this.#reported = problems
    return true
  }

  /** Says why the pod can't be had; what runs goes on. */
  block(reason: string, message: string): void {
    this.#blocked = { reason, message }
  }

  /**
   * Brings files and processes to what the pod asks for: files first, and a process is started anew only when its own
   * specification has changed. Returns what that means, for people; undefined where nothing changes.
   */
  apply(pod: LocalPod, port: PublicPort): string | undefined {
    const before = this.#pod
    this.#blocked = undefined
    const filesChanged = writeMounts(this.root, pod.folders)
    const restarts = JSON.stringify(before && processesOf(before)) !== JSON.stringify(processesOf(pod))
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

  /** Something has changed around it. */
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
    if (!sameSpec(this.#server, pod.server)) {
      await this.#server?.stop()
      this.#server = pod.server && new Child(pod.server, this.#options)
    }
    if (!sameSpec(this.#plane, pod.plane)) {
      await this.#plane?.stop()
      this.#plane = undefined
      await this.#awaitPort(pod, port)
      if (this.#stopping.signal.aborted || pod !== this.#pod) return
      this.#plane = new Child(pod.plane, this.#options)
    } else await this.#awaitConfig(pod)
  }

  /** Waits until the public port can be had; meanwhile the port is the pod's obstacle. */
  async #awaitPort(pod: LocalPod, port: PublicPort): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted && pod === this.#pod) {
      const code = await listenError(port.host, port.port)
      if (code === undefined) break
      const obstacle = portObstacle(port, code)
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

  /** Stops the processes; `remove` takes the files away too, otherwise those of Secrets alone. */
  async stop({ remove }: { readonly remove: boolean }): Promise<void> {
    this.#stopping.abort()
    this.#gateway?.stop()
    await Promise.all([this.#work, this.#plane?.stop(), this.#server?.stop()])
    // What was being started while the stop came.
    await Promise.all([this.#plane?.stop(), this.#server?.stop()])
    if (remove) rmSync(this.root, { recursive: true, force: true })
    else removeSecrets(this.root)
  }
}

function portObstacle({ host, port, advice }: PublicPort, code: string): Obstacle {
  const address = `port ${port} on ${host}`
  if (code === 'EADDRINUSE')
    return { reason: 'PortTaken', message: `${address} is taken by another process; end it, or ${advice}` }
  const why = code === 'EACCES' ? 'needs rights that this user lacks' : `can't be listened on (${code})`
  return { reason: 'PortRefused', message: `${address} ${why}; ${advice}` }
}

const processesOf = ({ plane, server }: LocalPod) => [plane, server]
