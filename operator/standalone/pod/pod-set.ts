import type { ObjectId } from '../../cluster/files/index.ts'
import { objectKey } from '../../cluster/files/index.ts'
import type { NamedObservation } from '../../model/index.ts'
import type { ChildOptions } from '../process/child.ts'
import { type PodOptions, RunningPod } from './running-pod.ts'

interface PodSetOptions extends ChildOptions {
  readonly urlOf: (id: ObjectId) => string | undefined
}

/** The pods that run on this machine, by workload. */
export class PodSet {
  readonly #options: PodOptions
  readonly #pods = new Map<string, RunningPod>()
  /** Pods that are being stopped. Their files are removed when they have ended. */
  readonly #leaving = new Map<string, Promise<void>>()

  constructor({ urlOf, ...options }: PodSetOptions) {
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
            const url = urlOf(id)
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
