import { isDeepStrictEqual } from 'node:util'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedSources } from '../../model/index.ts'
import { problemsIn, reportedSources } from '../../model/reported.ts'
import { fetchStatus } from '../status/gateway-poller.ts'
import type { RunningPod } from './running-pod.ts'

const POLL_INTERVAL_MS = 2_000

interface PollerOptions {
  readonly pods: () => readonly RunningPod[]
  readonly onChange: () => void
}

/** Gateways have their own poller (status/gateway-poller.ts), because their start waits for the answer. */
const POLLED: ReadonlySet<string> = new Set(['MCPRegistry', 'MCPServer', 'MCPRemoteProxy'])

/** Polls local registries and proxies as the operator polls its pods. */
export class StatusPoller {
  readonly #options: PollerOptions
  readonly #found = new Map<string, NamedSources>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PollerOptions) {
    this.#options = options
  }

  /** The last reported sources of the running registries. */
  get sources(): readonly NamedSources[] {
    return [...this.#found.values()]
  }

  start(): void {
    const poll = () => {
      const again = () => this.start()
      this.#pollAll().then(again, again)
    }
    if (!this.#isClosed) this.#timer = setTimeout(poll, POLL_INTERVAL_MS)
  }

  stop(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #pollAll(): Promise<void> {
    const pods = this.#options.pods().filter(({ id }) => POLLED.has(id.kind))
    const before = this.sources
    const running = new Set(pods.map(({ id }) => objectKey(id)))
    for (const key of this.#found.keys()) if (!running.has(key)) this.#found.delete(key)
    const others = await Promise.all(pods.map((pod) => this.#poll(pod)))
    const isOther = others.includes(true) || !isDeepStrictEqual(before, this.sources)
    if (!this.#isClosed && isOther) this.#options.onChange()
  }

  async #poll(running: RunningPod): Promise<boolean> {
    const { id, pod, isUp } = running
    if (!isUp || pod === undefined) return false
    const status = await fetchStatus(pod.adminUrl)
    // A pod that can't be asked reports itself that it is not ready. The last known state of its sources holds.
    if (status === undefined) return false
    if (id.kind === 'MCPRegistry') {
      const sources = reportedSources([status.sources])
      this.#found.set(objectKey(id), { namespace: id.namespace, name: id.name, sources })
    }
    return running.report(problemsIn([status]))
  }
}
