import { isDeepStrictEqual } from 'node:util'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedSources } from '../../model/index.ts'
import { problemsIn } from '../../model/reported-problems.ts'
import { reportedSources } from '../../model/reported-sources.ts'
import { fetchStatus } from '../status/fetch-status.ts'
import type { RunningPod } from './running-pod.ts'

const POLL_INTERVAL_MS = 2_000

interface PollerOptions {
  readonly pods: () => readonly RunningPod[]
  /** The state of a source has changed. */
  readonly onChange: () => void
}

/** Polls the registries that run here for the state of their sources and their problems, as the operator polls its pods. */
export class SourcePoller {
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
    const registries = this.#options.pods().filter(({ id }) => id.kind === 'MCPRegistry')
    const before = this.sources
    const running = new Set(registries.map(({ id }) => objectKey(id)))
    for (const key of this.#found.keys()) if (!running.has(key)) this.#found.delete(key)
    const others = await Promise.all(registries.map((pod) => this.#poll(pod)))
    const isOther = others.includes(true) || !isDeepStrictEqual(before, this.sources)
    if (!this.#isClosed && isOther) this.#options.onChange()
  }

  /** True where the registry reports other problems than before. */
  async #poll(running: RunningPod): Promise<boolean> {
    const { id, pod, isUp } = running
    if (!isUp || pod === undefined) return false
    const status = await fetchStatus(pod.adminUrl)
    // One that can't be asked says by itself that it is not ready; what was known of its sources holds.
    if (status === undefined) return false
    this.#found.set(objectKey(id), {
      namespace: id.namespace,
      name: id.name,
      sources: reportedSources([status.sources]),
    })
    return running.report(problemsIn([status]))
  }
}
