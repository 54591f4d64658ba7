import { isDeepStrictEqual } from 'node:util'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedSources } from '../../model/index.ts'
import { reportedSources } from '../../model/reported-sources.ts'
import { fetchStatus } from '../status/fetch-status.ts'
import type { RunningPod } from './running-pod.ts'

const POLL_INTERVAL_MS = 2_000

interface PollerOptions {
  readonly pods: () => readonly RunningPod[]
  /** The state of a source has changed. */
  readonly onChange: () => void
}

/** Polls the registries that run here for the state of their sources, as the operator polls its pods. */
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
    await Promise.all(registries.map((pod) => this.#poll(pod)))
    if (!this.#isClosed && !isDeepStrictEqual(before, this.sources)) this.#options.onChange()
  }

  async #poll({ id, pod, isUp }: RunningPod): Promise<void> {
    if (!isUp || pod === undefined) return
    const status = await fetchStatus(pod.adminUrl)
    // One that can't be asked says by itself that it is not ready; what was known of its sources holds.
    if (status === undefined) return
    this.#found.set(objectKey(id), {
      namespace: id.namespace,
      name: id.name,
      sources: reportedSources([status.sources]),
    })
  }
}
