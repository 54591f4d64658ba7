import { isDeepStrictEqual } from 'node:util'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedSources } from '../../model/index.ts'
import { toldSources } from '../../model/told-sources.ts'
import { toldStatus } from '../status/reported-status.ts'
import type { RunningPod } from './running-pod.ts'

const LOOK_EVERY_MS = 2_000

interface LookOptions {
  readonly pods: () => readonly RunningPod[]
  /** Sources stand otherwise than before. */
  readonly onChange: () => void
}

/** Asks the registries that run here how their sources stand, as the operator asks its pods. */
export class SourceLooks {
  readonly #options: LookOptions
  readonly #found = new Map<string, NamedSources>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: LookOptions) {
    this.#options = options
  }

  /** What the registries that run have told last. */
  get sources(): readonly NamedSources[] {
    return [...this.#found.values()]
  }

  start(): void {
    const look = () => {
      const again = () => this.start()
      this.#lookAtAll().then(again, again)
    }
    if (!this.#isClosed) this.#timer = setTimeout(look, LOOK_EVERY_MS)
  }

  stop(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #lookAtAll(): Promise<void> {
    const registries = this.#options.pods().filter(({ id }) => id.kind === 'MCPRegistry')
    const before = this.sources
    const running = new Set(registries.map(({ id }) => objectKey(id)))
    for (const key of this.#found.keys()) if (!running.has(key)) this.#found.delete(key)
    await Promise.all(registries.map((pod) => this.#look(pod)))
    if (!this.#isClosed && !isDeepStrictEqual(before, this.sources)) this.#options.onChange()
  }

  async #look({ id, pod, isUp }: RunningPod): Promise<void> {
    if (!isUp || pod === undefined) return
    const status = await toldStatus(pod.adminUrl)
    // One that can't be asked says by itself that it is not ready; what was known of its sources holds.
    if (status === undefined) return
    this.#found.set(objectKey(id), {
      namespace: id.namespace,
      name: id.name,
      sources: toldSources([status.sources]),
    })
  }
}
