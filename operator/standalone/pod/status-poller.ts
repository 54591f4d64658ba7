import { isDeepStrictEqual } from 'node:util'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedSources } from '../../model/index.ts'
import { problemsIn, reportedSources } from '../../model/reported.ts'
import { fetchStatus } from '../status/fetch-status.ts'
import type { RunningPod } from './running-pod.ts'

const POLL_INTERVAL_MS = 2_000

interface PollerOptions {
  readonly pods: () => readonly RunningPod[]
  /** The state of a source has changed. */
  readonly onChange: () => void
}

/** Gateways are polled by their own (status/gateway-poller.ts): somebody waits for what these say. */
const POLLED: ReadonlySet<string> = new Set(['MCPRegistry', 'MCPServer', 'MCPRemoteProxy'])

/**
 * Polls registries and proxies that run here for their problems, and registries for the state of their sources, as the
 * operator polls its pods.
 */
export class StatusPoller {
  readonly #options: PollerOptions
  readonly #found = new Map<string, NamedSources>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PollerOptions) {
    this.#options = options
  }

  /** What the registries that run have reported last. */
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

  /** True where it reports other problems than before. */
  async #poll(running: RunningPod): Promise<boolean> {
    const { id, pod, isUp } = running
    if (!isUp || pod === undefined) return false
    const status = await fetchStatus(pod.adminUrl)
    // One that can't be asked says by itself that it is not ready; what was known of its sources holds.
    if (status === undefined) return false
    if (id.kind === 'MCPRegistry') {
      const sources = reportedSources([status.sources])
      this.#found.set(objectKey(id), { namespace: id.namespace, name: id.name, sources })
    }
    return running.report(problemsIn([status]))
  }
}
