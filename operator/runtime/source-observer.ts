import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { World } from '../model/index.ts'
import { toldSources } from '../model/told-sources.ts'
import { type AskPod, isAsked } from './ask-pod.ts'
import { type Dependency, onSources } from './dependencies.ts'
import { keyOf, partsOf } from './keys.ts'
import type { PodCache } from './pod-cache.ts'
import { KeyedQueue } from './queue.ts'

const KIND = 'MCPRegistry'
/** How often a registry is asked again: soon while a source waits for its first sync, later when all have had it. */
const SOON_MS = 2_000
const LATER_MS = 15_000
/** Registries that are asked at a time; one that does not answer holds up no other. */
const AT_A_TIME = 8

interface ObserverOptions {
  readonly world: World
  readonly pods: PodCache
  readonly ask: AskPod
  readonly leading: () => boolean
  readonly onChange: (dependency: Dependency) => void
  readonly log: Logger
}

/**
 * Keeps the world's picture of registries' sources: asks their pods again and again, and tells only of what has become
 * otherwise. Reconciling never waits for it.
 */
export class SourceObserver {
  readonly #options: ObserverOptions
  readonly #queue = new KeyedQueue({ base: 1_000, max: LATER_MS })
  readonly #running: Promise<void>[] = []
  /** Uids of the objects that something is known of, by `namespace/name`. */
  readonly #seen = new Map<string, string>()

  constructor(options: ObserverOptions) {
    this.#options = options
  }

  /** The pods of a workload have changed. */
  check(kind: string, namespace: string, name: string): void {
    if (kind === KIND) this.#queue.add(keyOf(kind, namespace, name))
  }

  start(): void {
    if (this.#running.length > 0) return
    for (let count = 0; count < AT_A_TIME; count++) this.#running.push(this.#run())
  }

  async stop(): Promise<void> {
    this.#queue.close()
    await Promise.all(this.#running)
  }

  async #run(): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      const next = await this.#look(key)
      if (next !== undefined) this.#queue.addAfter(key, next)
      this.#queue.done(key)
    }
  }

  /** Gives the time until the next look in milliseconds; undefined where a change of the pods will tell. */
  async #look(key: string): Promise<number | undefined> {
    const { world, pods, ask, leading, onChange, log } = this.#options
    const { kind, namespace, name } = partsOf(key)
    const place = `${namespace}/${name}`
    const uid = world.objects.get(kind, namespace, name)?.metadata.uid
    // What is known is of this object, not of one that had its name before.
    if (uid === undefined || this.#seen.get(place) !== uid) {
      this.#seen.delete(place)
      world.sources.delete(place)
    }
    if (uid === undefined) return undefined
    const asked = pods.of(kind, namespace, name).filter(isAsked)
    if (asked.length === 0) return undefined
    // Who doesn't write the status need not know; whoever comes to lead is due within one round.
    if (!leading()) return LATER_MS
    const answers = await Promise.all(
      asked.map((pod) =>
        ask(pod).catch((error) => {
          log.debug({ pod: pod.metadata.name, error: String(error) }, 'a registry’s pod was not asked')
          return undefined
        }),
      ),
    )
    const told = answers.flatMap((answer) => (Array.isArray(answer?.sources) ? [answer.sources] : []))
    // Without an answer what was last known holds: the pods say by themselves that they are not ready.
    if (told.length === 0) return this.#seen.has(place) ? LATER_MS : SOON_MS
    this.#seen.set(place, uid)
    const sources = toldSources(told)
    if (!isDeepStrictEqual(world.sources.get(place), sources)) {
      world.sources.set(place, sources)
      onChange(onSources(namespace, name))
    }
    return sources.some(({ state }) => state === 'Waiting') ? SOON_MS : LATER_MS
  }
}
